// The list of a trace file: entries of every size and in every place, and what is damaged, told with its place.
#include "trace/json_events.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

struct List {
  std::vector<std::string> names;
  std::uint64_t entries = 0;
  std::uint64_t not_objects = 0;
  bool truncated = false;
  std::uint64_t whole_bytes = 0;
  std::uint64_t file_bytes = 0;
  Nanoseconds base_time = 0;
};

List read_list(std::string_view text) {
  ByteSource bytes("trace.json", text);
  JsonEventReader reader(bytes);
  List list;
  reader.read([&list](const JsonEvent& event) { list.names.emplace_back(event.name); }, {});
  list.entries = reader.entries();
  list.not_objects = reader.not_objects();
  list.truncated = reader.truncated();
  list.whole_bytes = reader.whole_bytes();
  list.file_bytes = reader.file_bytes();
  list.base_time = reader.base_time();
  return list;
}

// Longer than a block of the reader, so that what follows stands in another.
std::string long_entry(std::string_view name) {
  return fmt::format(R"({{"ph":"X","name":"{}","note":"{}"}})", name, std::string(1u << 20, 'x'));
}

TEST(JsonEvents, ListAndItsNeighbours) {
  const std::string entries = long_entry("a") + ",\n " + long_entry("b");
  for (const std::string& text : {fmt::format("[{}]", entries), fmt::format(R"({{"traceEvents": [{}]}})", entries),
                                  fmt::format("[{},]", entries), fmt::format("[{}] more", entries),
                                  fmt::format(R"({{"old": [{0}], "traceEvents": [{0}], "newer": [{0}]}})", entries)}) {
    const List list = read_list(text);
    EXPECT_THAT(list.names, ElementsAre("a", "b"));
    EXPECT_FALSE(list.truncated);
    EXPECT_EQ(list.file_bytes, text.size());
  }
  EXPECT_EQ(read_list(R"({"baseTimeNanoseconds": 7, "traceEvents": []})").base_time, 7);
  EXPECT_EQ(read_list(R"({"traceEvents": [)" + entries + R"(], "baseTimeNanoseconds": 8})").base_time, 8);
  expect_input_error([&] { static_cast<void>(read_list(R"({"old": [)" + entries + "]}")); }, 0, 0, "there is no list");
}

// What looks like the end of an entry, or like another entry, inside one.
TEST(JsonEvents, EntriesInsideOfEntries) {
  std::string nested;
  for (int k = 0; k < 100'000; ++k) nested += R"({"ph":"X","name":"inside"},)";
  const std::string entry = R"({"ph":"X","args":{"list":[)" + nested + R"(3],"text":"},{\"}]"},"name":"outside"})";
  const List list = read_list("[" + entry + "," + entry + ", 17, [{}], null]");
  EXPECT_THAT(list.names, ElementsAre("outside", "outside"));
  EXPECT_EQ(list.entries, 5u);
  EXPECT_EQ(list.not_objects, 3u);

  // The same where the end of the entry seems to be near.
  for (const char* inside : {R"("args":{"list":[{"name":"in"},{"name":"in"}]})", R"("args":{"name":"}, {\"},{"})",
                             R"("args":[{},{},[{}, {"a":{}}, {}]])", R"("args":{}, "more":{"a":"},{"})"}) {
    const std::string small = fmt::format(R"({{"ph":"X","name":"out",{}}})", inside);
    EXPECT_THAT(read_list(fmt::format("[{0}, 1,{0} ,\n{0}]", small)).names, ElementsAre("out", "out", "out")) << inside;
  }
}

TEST(JsonEvents, CutOffBehindTheFirstBlock) {
  const std::string whole = "[" + long_entry("a") + ",";
  for (const char* rest : {"", " ", "{", R"({"ph":"X","name":"b)", R"({"ph":"X"}])"}) {
    const List list = read_list(whole + rest);
    EXPECT_EQ(list.truncated, *rest == '\0' || std::string_view(rest).back() != ']') << rest;
    if (list.truncated) EXPECT_EQ(list.whole_bytes, whole.size() + (*rest == ' ' ? 1 : 0)) << rest;
    EXPECT_EQ(list.names.front(), "a");
  }
}

// Several blocks of entries that are numbered, between numbers, and that hold and quote what looks like the end of one.
// Whatever stands last in a block, no entry is left out, read twice or out of turn.
TEST(JsonEvents, AnyEntryAtABlocksEnd) {
  std::mt19937 random(1);
  std::vector<std::string> names;
  std::string text = "[";
  std::uint64_t numbers = 0;
  while (text.size() < (4u << 20)) {
    const std::string name = fmt::format("n{}", names.size());
    if (!names.empty()) text += std::vector<const char*>{",", ", ", " ,\n", "\n,\t"}[random() % 4];
    if (random() % 40 == 0) {
      text += "17 , ";
      ++numbers;
    }
    text += std::vector<std::string>{
        fmt::format(R"({{"ph":"X","name":"{}"}})", name),
        fmt::format(R"({{"args":{{"list":[{{}}, {{"name":"no"}}, {{}}]}},"name":"{}"}})", name),
        fmt::format(R"({{"note":"{{}}, {{ \"}},{{","name":"{}"}})", name),
        fmt::format(R"({{"list":[{}],"name":"{}"}})", fmt::join(std::vector<const char*>(500, "{}"), ","), name),
        fmt::format("{{\"note\":\"\xFF\",\"name\":\"{}\"}}", name)}[random() % 200 == 0 ? 4 : random() % 4];
    names.push_back(name);
  }
  const List list = read_list(text + "]");
  EXPECT_FALSE(list.truncated);
  EXPECT_EQ(list.not_objects, numbers);
  EXPECT_EQ(list.entries, names.size() + numbers);
  EXPECT_EQ(list.names, names);
}

// Empty objects are entries; numbers are none, and are counted as such.
TEST(JsonEvents, EmptyObjectsAndNumbersBetweenEntries) {
  std::string text = R"([{"ph":"X","name":"first"})";
  for (int i = 0; i < 40; ++i) text += ",{},1";
  for (int i = 0; i < 100; ++i) text += R"(,{"ph":"X","name":"after"})";
  const List list = read_list(text + "]");
  EXPECT_FALSE(list.truncated);
  EXPECT_EQ(list.entries, 1u + 40 * 2 + 100);
  EXPECT_EQ(list.not_objects, 40u);
  EXPECT_EQ(std::count(list.names.begin(), list.names.end(), "after"), 100);
}

// A name with foreign bytes and control characters costs no other name anything.
TEST(JsonEvents, ForeignBytes) {
  EXPECT_THAT(
      read_list("[" + long_entry("\xC3\xA9") + "," + long_entry("b\xFF\x01\xC3") + "," + long_entry("\xC3\xA9") + "]")
          .names,
      ElementsAre("\xC3\xA9", "b? ?", "\xC3\xA9"));
  EXPECT_THAT(read_list(R"([{"name":"a\u00e9\n"},{"name":"half \ud83d of a pair"}])").names,
              ElementsAre("a\xC3\xA9\n", R"(half \ud83d of a pair)"));
}

TEST(JsonEvents, RefusesWithThePlace) {
  const std::string begin = "[" + long_entry("a");
  const auto refused = [&begin](const std::string& rest, std::size_t at, const char* problem) {
    expect_input_error([&] { static_cast<void>(read_list(begin + rest)); }, 0, 0,
                       fmt::format("byte {}: {}", begin.size() + at, problem));
  };
  refused(R"(, {"ph" "X"}, {"ph":"X"}])", 2, "the entry that begins here is no JSON");
  refused(R"(, {'ph':'X'}])", 2, "the entry that begins here is no JSON");
  refused(R"( {"ph":"X"}])", 1, "the list goes on without a comma");
  refused(",, 7]", 1, "no entry begins here");
  refused(", }", 2, "no entry begins here");
}

}  // namespace
}  // namespace flyball
