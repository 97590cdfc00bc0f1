#include "base/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

enum class Colour { kRed, kGreen };
enum class Shape { kRound, kOther };

struct Part {
  int size = 3;
};

struct Whole {
  std::string name;
  std::int64_t count = 7;
  Seconds time{0.5};
  bool on = false;
  Colour colour = Colour::kGreen;
  std::vector<Watts> powers;
  std::optional<Joules> energy;
  std::optional<std::optional<Megahertz>> clock;
  std::vector<Part> parts;
  std::map<std::string, Joules, std::less<>> ranges;
};

}  // namespace

template <>
inline constexpr auto kNamesOf<Colour> = name_list("red", "green");
template <>
inline constexpr auto kNamesOf<Shape> = name_list("round", "other");
template <>
inline constexpr auto kUnknownName<Shape> = Shape::kOther;

namespace {

Record<Part> description_of(const Part* /*type*/) {
  return Record<Part>::request("Part").field("size", &Part::size, "How large.", {.minimum = 1, .maximum = 9});
}

// A description is of its own type only: another one's would drop what a derived type adds.
struct LargerPart : Part {
  int weight = 1;
};
static_assert(Described<Part> && !Described<LargerPart> && !Described<int>);
static_assert(!std::is_constructible_v<RecordDescription, std::string, RecordSide, std::string, std::string>);
static_assert(!std::is_constructible_v<Record<Part>, std::string, RecordSide, std::string, std::string>);

Record<Whole> described(Record<Whole> record) {
  return std::move(record)
      .field("name", &Whole::name, "Its name.",
             {.needed = true, .shortest = 2, .longest = 4, .marks = "-.", .example = "a-b"})
      .field("count", &Whole::count, "How many.", {.left_out = true, .minimum = -2, .maximum = 4611686018427387904.0})
      .field("time_s", &Whole::time, "How long.", {.minimum = 0.25})
      .field("on", &Whole::on, "Whether.")
      .field("colour", &Whole::colour, "Which.")
      .field("powers_w", &Whole::powers, "Of each.", {.minimum = 0, .fewest = 1, .most = 2, .single = true})
      .field("energy_j", &Whole::energy, "Where known.")
      .field("clock_mhz", &Whole::clock, "Null resets it.")
      .field("parts", &Whole::parts, "Of it.")
      .field("ranges_j", &Whole::ranges, "By name.", {.left_out = true, .minimum = 0});
}

const Record<Whole>& request() {
  static const Record<Whole> kRecord = described(Record<Whole>::request("Whole", "All kinds of fields."));
  return kRecord;
}

Whole read(const Record<Whole>& record, const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return record.read(JsonObject(json, "the request"));
}

TEST(Record, ReadsWhatIsGivenAndKeepsTheRestAsItIsInANewOne) {
  const Whole all = read(request(), R"({"name": "a-b.", "count": -2, "time_s": 0.25, "on": true, "colour": "red",
    "powers_w": [1, 2.5], "energy_j": 4, "clock_mhz": 1005, "parts": [{"size": 9}, {}],
    "ranges_j": {"CPU:0": 5, "": 0}})");
  EXPECT_EQ(all.name, "a-b.");
  EXPECT_EQ(all.count, -2);
  EXPECT_EQ(all.time, Seconds(0.25));
  EXPECT_TRUE(all.on);
  EXPECT_EQ(all.colour, Colour::kRed);
  EXPECT_THAT(all.powers, ElementsAre(Watts(1), Watts(2.5)));
  EXPECT_EQ(all.energy, Joules(4));
  EXPECT_EQ(all.clock.value(), Megahertz(1005));
  ASSERT_EQ(all.parts.size(), 2u);
  EXPECT_EQ(all.parts[0].size, 9);
  EXPECT_EQ(all.parts[1].size, 3);
  EXPECT_THAT(all.ranges, ElementsAre(Pair("", Joules(0)), Pair("CPU:0", Joules(5))));

  const Whole least = read(request(), R"({"name": "ab", "count": null, "energy_j": null, "powers_w": 6})");
  EXPECT_EQ(least.count, 7);
  EXPECT_EQ(least.time, Seconds(0.5));
  EXPECT_EQ(least.colour, Colour::kGreen);
  EXPECT_THAT(least.powers, ElementsAre(Watts(6)));
  EXPECT_FALSE(least.energy);
  EXPECT_FALSE(least.clock);
  const Whole reset = read(request(), R"({"name": "ab", "clock_mhz": null})");
  EXPECT_TRUE(reset.clock && !*reset.clock) << "null is not as if nothing were said";
}

TEST(Record, RefusesByNameWhatBreaksARule) {
  const auto refused = [](const std::string& fields, const std::string& words) {
    expect_input_error([&] { static_cast<void>(read(request(), "{" + fields + "}")); }, 0, 0, words);
  };
  refused("", "name: is missing");
  refused(R"("name": null)", "name: is missing");
  refused(R"("name": 1)", "name: is 1, not a text");
  refused(R"("name": "a")", "name: has 1 characters");
  refused(R"("name": "")", "name: has 0 characters");
  refused(R"("name": "abcde")", "name: has 5 bytes");
  refused(R"("name": "a/b")", "name: holds other characters than letters, digits and - .");
  refused(R"("name": "ab", "count": -3)", "from -2 to 4611686018427387904");
  refused(R"("name": "ab", "count": 1.5)", "count: is 1.5, not a whole number");
  refused(R"("name": "ab", "time_s": 0.2)", "time_s: is 0.2, out of range");
  refused(R"("name": "ab", "on": null)", "on: is null, not true or false");
  refused(R"("name": "ab", "colour": "blue")", "give one of: red, green");
  refused(R"("name": "ab", "powers_w": [])", "powers_w: has 0 entries");
  refused(R"("name": "ab", "powers_w": [1, 2, 3])", "powers_w: has 3 entries");
  refused(R"("name": "ab", "powers_w": [1, -2])", "powers_w[1]: is -2, out of range");
  refused(R"("name": "ab", "parts": [{}, {"size": 10}])", "parts[1].size: is 10, out of range");
  refused(R"("name": "ab", "parts": [{"siez": 1}])", "parts[0].siez: there is no such field");
  refused(R"("name": "ab", "ranges_j": {"CPU:0": -1})", "ranges_j.CPU:0: is -1, out of range");
  refused(R"("name": "ab", "ranges_j": [])", "ranges_j is [], not an object");
  refused(R"("name": "ab", "colours": "red")", "did you mean colour?");
}

struct Shaped {
  Shape shape = Shape::kRound;
  std::optional<Shape> before;
};

TEST(Record, AnAnswerMaySayMore) {
  const Record<Whole> answer = described(Record<Whole>::answer("Whole", "the answer"));
  EXPECT_EQ(read(answer, R"({"name": "ab", "weather": "fine"})").colour, Colour::kGreen);
  expect_input_error([&] { static_cast<void>(read(answer, R"({"name": "ab", "colour": "blue"})")); }, 0, 0,
                     "colour: is 'blue'");
  // A name that newer programs may give is not the one that stands for nothing said.
  const auto shaped = Record<Shaped>::answer("Shaped", "the answer")
                          .field("shape", &Shaped::shape, "Now.")
                          .field("before", &Shaped::before, "Before.");
  const auto json = nlohmann::json::parse(R"({"shape": "square", "before": "oval"})");
  const Shaped known = shaped.read(JsonObject(json, "the answer"));
  EXPECT_EQ(known.shape, Shape::kOther);
  EXPECT_EQ(known.before, Shape::kOther);
  const auto nothing = nlohmann::json::object();
  EXPECT_EQ(shaped.read(JsonObject(nothing, "the answer")).shape, Shape::kRound);
}

TEST(Record, WritesRequestsWithoutAndAnswersWithNull) {
  Whole whole;
  whole.name = "ab";
  whole.powers = {Watts(1)};
  EXPECT_EQ(request().write(whole).dump(),
            R"({"name":"ab","time_s":0.5,"on":false,"colour":"green","powers_w":[1.0],"parts":[]})");
  whole.count = 8;
  whole.clock.emplace();
  whole.parts.emplace_back();
  whole.ranges = {{"CPU:0", Joules(5)}};
  EXPECT_EQ(described(Record<Whole>::answer("Whole", "the answer")).write(whole).dump(),
            R"({"name":"ab","count":8,"time_s":0.5,"on":false,"colour":"green","powers_w":[1.0],"energy_j":null,)"
            R"("clock_mhz":null,"parts":[{"size":3}],"ranges_j":{"CPU:0":5.0}})");
}

// By the rules of JSON Schema 2020-12, written down by hand.
TEST(Record, ItsSchemaSaysTheSame) {
  const auto wanted = nlohmann::json::parse(R"({
    "description": "All kinds of fields.", "type": "object", "additionalProperties": false, "required": ["name"],
    "properties": {
      "name": {"description": "Its name.", "type": "string", "pattern": "^[A-Za-z0-9.-]{2,4}$"},
      "count": {"description": "How many.", "type": ["integer", "null"], "minimum": -2, "maximum": 4611686018427387904,
                "default": 7},
      "time_s": {"description": "How long.", "type": ["number", "null"], "minimum": 0.25, "default": 0.5},
      "on": {"description": "Whether.", "type": "boolean", "default": false},
      "colour": {"description": "Which.", "oneOf": [{"enum": ["red", "green"]}, {"type": "null"}], "default": "green"},
      "powers_w": {"description": "Of each.", "oneOf": [{"oneOf": [{"type": "number", "minimum": 0.0},
        {"type": "array", "items": {"type": "number", "minimum": 0.0}, "minItems": 1, "maxItems": 2}]},
        {"type": "null"}]},
      "energy_j": {"description": "Where known.", "type": ["number", "null"]},
      "clock_mhz": {"description": "Null resets it.", "type": ["number", "null"]},
      "parts": {"description": "Of it.", "type": ["array", "null"], "items": {"$ref": "#/components/schemas/Part"}},
      "ranges_j": {"description": "By name.", "type": ["object", "null"],
                   "additionalProperties": {"type": "number", "minimum": 0.0}}
    }})");
  EXPECT_EQ(nlohmann::json(request().schema()), wanted);
}

TEST(Record, ItsSchemaHasTheNamesThatItIsGiven) {
  const auto part = Record<Whole>::request("Whole").field("name", &Whole::name, "", {.needed = true, .known = "birds"});
  const auto name = [&](const KnownNames& known) { return part.schema(known).at("properties").at("name").dump(); };
  EXPECT_EQ(name({{"birds", {"wren", "rook"}}}), R"({"enum":["wren","rook"]})");
  EXPECT_EQ(name({{"trees", {"oak"}}}), R"({"type":"string"})");
}

// Fields of a part stand in the record itself.
struct Parcel {
  Part part;
};

TEST(Record, APartsMembersMayStandInTheRecordItself) {
  const auto parcel = Record<Parcel>::request("Parcel").field("size_of_it", &Parcel::part, &Part::size, "How large.",
                                                              {.minimum = 1, .maximum = 9});
  const auto json = nlohmann::json::parse(R"({"size_of_it": 8})");
  EXPECT_EQ(parcel.read(JsonObject(json, "it")).part.size, 8);
  EXPECT_EQ(parcel.write({}).dump(), R"({"size_of_it":3})");
  EXPECT_EQ(parcel.fields().front().standard, 3);
}

}  // namespace
}  // namespace flyball
