// Pictures and files of an energy account.
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "account/footprint_file.h"
#include "base/text.h"
#include "report/energy_diagram.h"
#include "report/footprint_pprof.h"
#include "report/footprint_report.h"
#include "report/footprint_speedscope.h"
#include "support/memory_traces.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

FootprintRow row(const std::string& name, double joules, Phase phase) {
  FootprintRow result;
  result.name = name;
  result.device = "GPU:0";
  result.phase = phase;
  result.energy = Joules(joules);
  result.busy = result.powered = Seconds(0.5);
  return result;
}

struct Account {
  OperationTable operations;
  Footprint footprint;
  Account() {
    footprint.rows = {row("bert/encoder/layer_0/MatMul", 6, Phase::kForward),
                      row("bert/encoder/layer_0/MatMul", 3, Phase::kBackward),
                      row("bert/embeddings/Gather,\"x\"</script>", 1, Phase::kForward)};
    FootprintDevice& device = footprint.devices.emplace_back();
    device.device = "GPU:0";
    device.measured = Joules(15);
    device.attributed = Joules(10);
    device.idle = Joules(2);
    device.outside = Joules(3);
    device.idle_time = Seconds(0.25);
    device.outside_time = Seconds(0.75);
    device.unmeasured = Seconds(0.125);
    merge_rows(footprint);
    const OperationId gather = operations.intern("bert/embeddings/Gather,\"x\"</script>", Phase::kForward);
    operations.add_edge(gather, operations.intern("bert/encoder/layer_0/MatMul", Phase::kForward));
  }
};

TEST(FootprintReport, Json) {
  const nlohmann::json json = nlohmann::json::parse(footprint_json(Account().footprint, {"a note"}));
  EXPECT_EQ(json.at("measured_j"), 15.0);
  EXPECT_EQ(json.at("outside_j"), 3.0);
  EXPECT_EQ(json.at("devices").at(0).at("unmeasured_s"), 0.125);
  EXPECT_EQ(json.at("devices").at(0).at("idle_j"), 2.0);
  EXPECT_EQ(json.at("footprint").size(), 3u);
  EXPECT_EQ(json.at("footprint").at(0).at("phase"), "forward");
  EXPECT_EQ(json.at("footprint").at(0).at("mean_power_w"), 12.0);
  EXPECT_EQ(json.at("notes").at(0), "a note");
}

TEST(FootprintReport, JsonIsReadBackAsItWas) {
  Footprint footprint = Account().footprint;
  footprint.devices[0].monitor = Joules(0.1);
  footprint.profiled = Seconds(2);
  EXPECT_EQ(footprint_json(read_footprint("a.json", footprint_json(footprint, {})), {}), footprint_json(footprint, {}));
  footprint.rows[1].energy = Joules(5);
  const Footprint mean = mean_of_runs(std::vector{footprint, Account().footprint});
  ASSERT_GT(mean.rows[1].energy_deviation, Joules(0));
  EXPECT_EQ(footprint_json(read_footprint("b.json", footprint_json(mean, {})), {}), footprint_json(mean, {}));
}

TEST(FootprintReport, CsvQuotes) {
  const std::string csv = footprint_csv(Account().footprint);
  EXPECT_THAT(
      csv,
      StartsWith(
          "name,device,phase,energy_j,busy_s,mean_power_w,energy_std_j,energy_error_j,group,static_j,dynamic_j\n"));
  EXPECT_THAT(csv, HasSubstr("\"bert/embeddings/Gather,\"\"x\"\"<"
                             "/script>\",GPU:0,forward,1,0.5,2,0,,,,\n"));
  EXPECT_THAT(csv, HasSubstr("(idle),GPU:0,,2,0.25,,,,,,\n(outside),GPU:0,,3,0.75,,,,,,\n"));
}

// Shares of the root's only part; an arrow.
TEST(FootprintReport, Diagrams) {
  const Account account;
  const EnergyTree tree = make_energy_tree(account.footprint, account.operations);
  const std::string dot = energy_diagram_dot(tree, tree.find("bert"));
  EXPECT_THAT(dot, HasSubstr("encoder\\n90.00 %\", style=\"filled,rounded\""));
  EXPECT_THAT(dot, HasSubstr(" -> "));
}

// Sixty parts without an edge: Graphviz sets them in rows, where one row of them is seventeen times as wide as high.
TEST(FootprintReport, PartsWithoutEdgesAreNoStrip) {
  EnergyTree tree;
  tree.nodes.resize(61);
  for (std::size_t k = 1; k <= 60; ++k) {
    tree.nodes[k].name = "layer_" + std::to_string(k);
    tree.nodes[k].energy[0] = Joules(1);
    tree.nodes[0].children.push_back(k);
  }
  tree.nodes[0].energy[0] = Joules(60);
  const testing::TempFolder folder;
  write_text_file(folder.path() / "a.dot", energy_diagram_dot(tree, 0));
  const std::string drawn = folder.path() / "a.svg";
  ASSERT_EQ(std::system(("dot -Tsvg " + (folder.path() / "a.dot").string() + " > " + drawn).c_str()), 0);
  const std::string svg = read_text_file(drawn);
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex(R"(width="(\d+)pt" height="(\d+)pt")")));
  EXPECT_LT(std::stod(size[1]), 3.0 * std::stod(size[2]));
}

TEST(FootprintReport, Page) {
  const Account account;
  const EnergyTree tree = make_energy_tree(account.footprint, account.operations);
  testing::MemoryPower power({{0, 2 * kSecond, 0, Watts(100)}});
  testing::MemoryEvents events({{0, kSecond, 0, 0}});
  ActivityBins bins(0, 2 * kSecond, 50);
  bins.add_power(power);
  bins.add_events(events, {0}, 1);
  FootprintPage page;
  page.title = "t & u";
  page.footprint = &account.footprint;
  page.summary = &account.footprint;
  page.tree = &tree;
  page.power = PowerPicture{std::make_shared<ActivityBins>(bins), {"GPU:0"}, {"bert/encoder"}};
  const std::string html = footprint_html(page);
  EXPECT_THAT(html, HasSubstr("t &amp; u"));
  EXPECT_THAT(html, HasSubstr("<strong>bert/encoder</strong> takes 90.0&nbsp;%"));
  EXPECT_THAT(html, HasSubstr("15&nbsp;J measured, 13.3&nbsp;% of it while nothing ran, 20.0&nbsp;% before and after"));
  EXPECT_THAT(html, HasSubstr("<td>15.00</td><td>10.00</td><td>2.00</td><td>3.00</td>"));
  EXPECT_THAT(html, HasSubstr("<td>0.000</td><td>0.250</td><td>0.750</td><td>0.125</td>"));
  EXPECT_THAT(html, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(html, HasSubstr("s since the profile began"));
}

// All of a model's energy is autograd's: 3 of its 4 J in the backward pass of the only part that has a name.
TEST(FootprintReport, TheHeadlineNamesNoFunctionOfAutograd) {
  OperationTable operations;
  Footprint footprint;
  footprint.rows = {row("head/AddmmBackward0", 3, Phase::kBackward), row("head/aten::linear", 1, Phase::kForward)};
  FootprintDevice& device = footprint.devices.emplace_back();
  device.measured = device.attributed = Joules(4);
  const EnergyTree tree = make_energy_tree(footprint, operations);
  FootprintPage page;
  page.footprint = &footprint;
  page.tree = &tree;
  EXPECT_THAT(footprint_html(page), HasSubstr("The backward pass of <strong>head</strong> takes 75.0&nbsp;% of"));
}

std::string inflated(const std::string& zipped) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  std::string text(1 << 20, '\0');
  std::string input = zipped;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

// Sample 1 of the profile: leaf first "MatMul" (5), "layer_0" (4), "encoder" (3), "bert" (2), "GPU:0" (1); 0.5e9 ns,
// and 6 J as 6e9 nJ, 6e6 uJ, 6,000 mJ and 6 J. All rows have 10 J, which are five digits in mJ; strings are numbered as
// they come: "" 0, "busy" 1, "nanoseconds" 2, "nanojoules" 3, "nJ" 4, "microjoules" 5, "uJ" 6, "millijoules" 7.
TEST(FootprintReport, Pprof) {
  const std::string profile = inflated(footprint_pprof(Account().footprint));
  EXPECT_THAT(profile, StartsWith(std::string("\x0a\x04\x08\x01\x10\x02"   // sample_type {busy, nanoseconds}
                                              "\x0a\x04\x08\x03\x10\x04",  // sample_type {nanojoules, nJ}
                                              12)));
  EXPECT_THAT(profile, HasSubstr(std::string("\x08\x05\x08\x04\x08\x03\x08\x02\x08\x01"
                                             "\x10\x80\xca\xb5\xee\x01\x10\x80\xf8\x82\xad\x16"
                                             "\x10\x80\x9b\xee\x02\x10\xf0\x2e\x10\x06",
                                             32)));
  EXPECT_THAT(profile, HasSubstr("\x70\x07"));  // default_sample_type (field 14)
}

// 9.9 kJ are 9,900 J, of which a row's rounding would be more than a 20,000th; 10 kJ are shown in joules (string 9),
// and 9.9 J in microjoules (string 5).
TEST(FootprintReport, PprofShowsTheCoarsestUnitThatTells) {
  Footprint footprint;
  const auto shown = [&](double joules) {
    footprint.rows = {row("a", joules, Phase::kForward)};
    const std::string profile = inflated(footprint_pprof(footprint));
    return profile.substr(profile.find(std::string("\x32\x00", 2)) - 2, 2);  // before the first string, ""
  };
  EXPECT_EQ(shown(9'900), "\x70\x07");
  EXPECT_EQ(shown(10'000), "\x70\x09");
  EXPECT_EQ(shown(9.9), "\x70\x05");
}

// What https://www.speedscope.app/file-format-schema.json asks of a file with sampled profiles: the names and types of
// the members, units of its list, and indices of frames that exist. Stacks begin with the outermost frame.
TEST(FootprintReport, Speedscope) {
  const nlohmann::json file = nlohmann::json::parse(footprint_speedscope(Account().footprint, "a \"title\""));
  EXPECT_EQ(file.at("$schema"), "https://www.speedscope.app/file-format-schema.json");
  EXPECT_EQ(file.at("name"), "a \"title\"");
  EXPECT_EQ(file.at("activeProfileIndex"), 0);
  const nlohmann::json& frames = file.at("shared").at("frames");
  const auto stacks = [&](const nlohmann::json& profile) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < profile.at("samples").size(); ++i) {
      std::string text;
      for (const nlohmann::json& frame : profile.at("samples").at(i)) {
        text += frames.at(frame.get<std::size_t>()).at("name").get<std::string>() + ";";
      }
      texts.push_back(text + " " + profile.at("weights").at(i).dump());
    }
    return texts;
  };
  ASSERT_EQ(file.at("profiles").size(), 2u);
  const nlohmann::json& energy = file.at("profiles").at(0);
  EXPECT_EQ(energy.at("type"), "sampled");
  EXPECT_EQ(energy.at("name"), "energy in joules");
  EXPECT_EQ(energy.at("unit"), "none");  // speedscope knows no joules
  EXPECT_EQ(energy.at("startValue"), 0.0);
  EXPECT_EQ(energy.at("endValue"), 10.0);
  // The parts of a name, which may itself hold a quote and a tag.
  EXPECT_THAT(stacks(energy),
              ElementsAre("GPU:0;bert;encoder;layer_0;MatMul; 6", "GPU:0;bert;encoder;layer_0;MatMul; 3",
                          "GPU:0;bert;embeddings;Gather,\"x\"<;script>; 1"));
  const nlohmann::json& busy = file.at("profiles").at(1);
  EXPECT_EQ(busy.at("name"), "busy time");
  EXPECT_EQ(busy.at("unit"), "seconds");
  EXPECT_EQ(busy.at("endValue"), 1.5);
  EXPECT_EQ(busy.at("weights"), nlohmann::json({0.5, 0.5, 0.5}));
}

// A row without energy is in the profile of busy time alone.
TEST(FootprintReport, SpeedscopeLeavesOutWhatTookNothing) {
  Footprint footprint;
  footprint.rows = {row("a", 0, Phase::kForward)};
  const nlohmann::json profiles = nlohmann::json::parse(footprint_speedscope(footprint, "")).at("profiles");
  EXPECT_EQ(profiles.at(0).at("samples").size(), 0u);
  EXPECT_EQ(profiles.at(1).at("samples").size(), 1u);
}

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

// The sum of the second value of all samples, which is in nJ: fields of a message are a varint (kind 0) or bytes (kind
// 2).
std::uint64_t pprof_energy(const std::string& profile) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < profile.size();) {
    const std::uint64_t key = varint(profile, at);
    const std::uint64_t value = varint(profile, at);
    if ((key & 7) != 2) continue;
    const std::size_t end = at + value;
    std::vector<std::uint64_t> values;
    for (std::size_t inner = at; key >> 3 == 2 && inner < end;) {  // Profile.sample
      const std::uint64_t field = varint(profile, inner);
      const std::uint64_t number = varint(profile, inner);
      if (field == (2u << 3 | 0u)) values.push_back(number);  // Sample.value, not packed
      if (field == (2u << 3 | 2u)) {                          // packed
        for (const std::size_t stop = inner + number; inner < stop;) values.push_back(varint(profile, inner));
      } else if ((field & 7) == 2) {
        inner += number;
      }
    }
    if (values.size() == 5) sum += values[1];
    at = end;
  }
  return sum;
}

// Ten thousand rows of 1/3 nJ less than 1.4 nJ: each rounded by itself would be 1 nJ, a third too little.
TEST(FootprintReport, FilesConserveEnergy) {
  Footprint footprint;
  double sum = 0.0;
  for (int i = 0; i < 10'000; ++i) {
    footprint.rows.push_back(row("m/operation_" + std::to_string(i), 1.4e-9 + 1e-13 * i, Phase::kForward));
    sum += 1.4e-9 + 1e-13 * i;
  }
  footprint.rows.push_back(row("m/large", 3.0, Phase::kForward));
  sum += 3.0;
  EXPECT_NEAR(static_cast<double>(pprof_energy(inflated(footprint_pprof(footprint)))) * 1e-9, sum, 1e-9 * sum);
  double in_json = 0.0;
  const nlohmann::json json = nlohmann::json::parse(footprint_json(footprint, {}));
  for (const nlohmann::json& one : json.at("footprint")) in_json += one.at("energy_j").get<double>();
  EXPECT_NEAR(in_json, sum, 1e-9 * sum);
  double in_csv = 0.0;
  std::istringstream lines(footprint_csv(footprint));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) in_csv += std::stod(line.substr(line.find("forward,") + 8));
  EXPECT_NEAR(in_csv, sum, 1e-9 * sum);
}

// Rows of a group, and one whose error is not known.
TEST(FootprintReport, ShowsErrorsAndGroups) {
  Footprint footprint = Account().footprint;
  footprint.rows[0].error = Joules(0.5);
  footprint.rows[1].error = Joules(2);
  footprint.rows[0].group = footprint.rows[1].group = 1;
  footprint.groups = {{1, "GPU:0", Joules(9), Joules(0.25)}};
  footprint.devices[0].method = AccountMethod::kBoth;
  footprint.devices[0].events = 3;
  EXPECT_EQ(footprint_json(read_footprint("a.json", footprint_json(footprint, {})), {}), footprint_json(footprint, {}));
  EXPECT_THAT(footprint_csv(footprint), HasSubstr(",GPU:0,forward,6,0.5,12,0,0.5,1,,\n"));
  const EnergyTree tree = make_energy_tree(footprint, Account().operations);
  FootprintPage page;
  page.footprint = &footprint;
  page.tree = &tree;
  const std::string html = footprint_html(page);
  EXPECT_THAT(
      html, HasSubstr("60.0&nbsp;% of the attributed energy is known to 10&nbsp;% row by row, 30.0&nbsp;% in groups"));
  EXPECT_THAT(html, HasSubstr("<h2>Groups</h2>"));
  EXPECT_THAT(html, HasSubstr("<td>both</td>"));
}

}  // namespace
}  // namespace flyball
