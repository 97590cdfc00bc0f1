#include "account/footprint_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "support/expect_error.h"
#include "support/temp_folder.h"

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

Footprint parsed(const std::string& text) { return read_footprint("a.json", text); }

TEST(FootprintFile, NeedsOnlyNameDeviceEnergyAndTime) {
  const Footprint footprint =
      parsed(R"({"footprint": [{"name": "m/a", "device": "GPU:0", "energy_j": 2.5, "busy_s": 0.5}]})");
  EXPECT_EQ(footprint.runs, 1);
  EXPECT_TRUE(footprint.devices.empty());
  ASSERT_EQ(footprint.rows.size(), 1u);
  const FootprintRow& row = footprint.rows[0];
  EXPECT_EQ(row.name, "m/a");
  EXPECT_EQ(row.device, "GPU:0");
  EXPECT_EQ(row.phase, Phase::kUnknown);
  EXPECT_EQ(row.energy, Joules(2.5));
  EXPECT_EQ(row.powered, Seconds(0.5)) << "known for as long as it ran";
  EXPECT_EQ(row.mean_power(), Watts(5));
}

// Two rows of three runs each: how their sum varies over the runs cannot be told from how each of them does.
TEST(FootprintFile, UnknownDeviationsOfSeveralRunsStayUnknown) {
  const Footprint added = parsed(R"({"runs": 3, "footprint": [
    {"name": "a", "device": "G", "energy_j": 1, "busy_s": 1, "energy_std_j": 0.5, "mean_power_std_w": 0.5},
    {"name": "a", "device": "G", "energy_j": 2, "busy_s": 1, "energy_std_j": 0.5, "mean_power_std_w": 0.5}]})");
  ASSERT_EQ(added.rows.size(), 1u);
  EXPECT_TRUE(std::isnan(added.rows[0].energy_deviation.value()));
  const Footprint unknown = parsed(
      R"({"runs": 3, "footprint": [{"name": "a", "device": "G", "energy_j": 3, "busy_s": 2, "energy_std_j": null}]})");
  EXPECT_TRUE(std::isnan(unknown.rows.at(0).energy_deviation.value()));
  EXPECT_TRUE(std::isnan(unknown.rows.at(0).power_deviation.value())) << "missing";
  const Footprint one = parsed(R"({"footprint": [{"name": "a", "device": "G", "energy_j": 3, "busy_s": 2}]})");
  EXPECT_EQ(one.rows.at(0).energy_deviation, Joules(0)) << "one run does not vary";
}

TEST(FootprintFile, ReadsEveryField) {
  const Footprint footprint = parsed(R"({"runs": 3,
    "devices": [{"device": "CPU:0", "measured_j": 10, "attributed_j": 4, "idle_j": 3, "other_processes_j": 1.5,
                 "system_j": 1, "monitor_j": 0.5, "measured_s": 2, "busy_s": 1, "uncovered_s": 0.25}],
    "footprint": [{"name": "m/a", "device": "CPU:0", "phase": "backward", "energy_j": 4, "busy_s": 1, "powered_s": 0.75,
                   "mean_power_w": 5.3, "energy_std_j": 0.125, "mean_power_std_w": 0.5}],
    "notes": ["of a later version"], "new": {"field": 1}})");
  EXPECT_EQ(footprint.runs, 3);
  ASSERT_EQ(footprint.devices.size(), 1u);
  const FootprintDevice& device = footprint.devices[0];
  EXPECT_EQ(device.measured, device.attributed + device.idle + footprint.elsewhere());
  EXPECT_EQ(device.other_processes, Joules(1.5));
  EXPECT_EQ(device.system, Joules(1));
  EXPECT_EQ(device.monitor, Joules(0.5));
  EXPECT_EQ(device.powered, Seconds(2));
  EXPECT_EQ(device.busy, Seconds(1));
  EXPECT_EQ(device.uncovered, Seconds(0.25));
  ASSERT_EQ(footprint.rows.size(), 1u);
  const FootprintRow& row = footprint.rows[0];
  EXPECT_EQ(row.phase, Phase::kBackward);
  EXPECT_EQ(row.powered, Seconds(0.75));
  EXPECT_EQ(row.energy_deviation, Joules(0.125));
  EXPECT_EQ(row.power_deviation, Watts(0.5));
}

// As the program's own are: no two rows of one name, device and phase, most energy first.
TEST(FootprintFile, MergesAndOrdersRows) {
  const Footprint footprint = parsed(R"({"footprint": [
    {"name": "b", "device": "GPU:0", "energy_j": 3, "busy_s": 1},
    {"name": "a", "device": "GPU:0", "phase": "forward", "energy_j": 2, "busy_s": 1},
    {"name": "a", "device": "GPU:0", "phase": "forward", "energy_j": 4, "busy_s": 1},
    {"name": "a", "device": "GPU:0", "phase": "backward", "energy_j": 1, "busy_s": 1},
    {"name": "a", "device": "GPU:0", "phase": "sideways", "energy_j": 0.5, "busy_s": 1}]})");
  ASSERT_EQ(footprint.rows.size(), 4u);
  EXPECT_EQ(footprint.rows[0].name, "a");
  EXPECT_EQ(footprint.rows[0].energy, Joules(6));
  EXPECT_EQ(footprint.rows[0].busy, Seconds(2));
  EXPECT_EQ(footprint.rows[1].name, "b");
  EXPECT_EQ(footprint.rows[2].phase, Phase::kBackward);
  EXPECT_EQ(footprint.rows[3].phase, Phase::kUnknown) << "a pass that nobody knows";
}

TEST(FootprintFile, SaysWhatIsWrong) {
  const auto refused = [](const std::string& text, const std::string& words, std::size_t line = 0,
                          std::size_t column = 0) {
    expect_input_error([&] { (void)parsed(text); }, line, column, words);
  };
  refused(R"({"traceEvents": []})", "there is no footprint in it");
  refused("[]", "is [], not an object");
  refused("{\n  \"footprint\": [\n", "", 3, 1);
  refused(R"({"footprint": {}})", "footprint");
  refused(R"({"footprint": [7]})", "footprint[0]");
  refused(R"({"footprint": [{"device": "GPU:0", "energy_j": 1, "busy_s": 1}]})", "footprint[0].name: is missing");
  refused(R"({"footprint": [{"name": "a", "energy_j": 1, "busy_s": 1}]})", "footprint[0].device: is missing");
  refused(R"({"footprint": [{"name": "a", "device": "GPU:0", "energy_j": "1", "busy_s": 1}]})",
          "footprint[0].energy_j: is \"1\", not a number");
  refused(R"({"footprint": [{"name": "a", "device": "GPU:0", "energy_j": 1e30, "busy_s": 1}]})",
          "footprint[0].energy_j: is 1e+30, out of range");
  refused(R"({"footprint": [{"name": "a", "device": "GPU:0", "energy_j": 1, "busy_s": -1}]})",
          "footprint[0].busy_s: is -1, out of range");
  refused(R"({"footprint": [], "runs": 0})", "runs: is 0, out of range");
  refused(R"({"footprint": [], "devices": [{"measured_j": 1}]})", "devices[0].device: is missing");
}

TEST(FootprintFile, NamesTheFile) {
  const testing::TempFolder folder;
  const std::string path = folder / "footprint.json";
  EXPECT_THROW((void)read_footprint_file(path), SystemError);
  write_text_file(path, "{}");
  expect_input_error([&] { (void)read_footprint_file(path); }, 0, 0, path);
}

TEST(FootprintFile, ReadsErrorsAndGroups) {
  const Footprint footprint =
      parsed(R"({"devices": [{"device": "G", "method": "both"}, {"device": "H", "method": "oracle"}],
    "footprint": [{"name": "a", "device": "G", "energy_j": 3, "busy_s": 2, "energy_error_j": 1.5, "group": 2},
                  {"name": "b", "device": "G", "energy_j": 2, "busy_s": 2, "energy_error_j": null, "group": 2}],
    "groups": [{"group": 2, "device": "G", "energy_j": 5, "energy_error_j": 0.25}]})");
  EXPECT_EQ(footprint.devices.at(0).method, AccountMethod::kBoth);
  EXPECT_EQ(footprint.devices.at(1).method, std::nullopt) << "of a later version";
  EXPECT_EQ(footprint.rows.at(0).error, Joules(1.5));
  EXPECT_EQ(footprint.rows.at(0).group, 2u);
  EXPECT_TRUE(std::isnan(footprint.rows.at(1).error.value()));
  ASSERT_EQ(footprint.groups.size(), 1u);
  EXPECT_EQ(footprint.groups[0].error, Joules(0.25));
  // A row that says it is of a group that is not there is of none.
  EXPECT_EQ(parsed(R"({"footprint": [{"name": "a", "device": "G", "energy_j": 3, "busy_s": 2, "group": 7}]})")
                .rows.at(0)
                .group,
            0u);
  for (const char* wrong :
       {R"("energy_error_j": -1)", R"("energy_error_j": "few")", R"("group": -1)", R"("group": 1e99)"}) {
    const std::string row = R"({"footprint": [{"name": "a", "device": "G", "energy_j": 3, "busy_s": 2, )";
    EXPECT_THROW((void)parsed(row + wrong + "}]}"), InputError) << wrong;
  }
}

}  // namespace
}  // namespace flyball
