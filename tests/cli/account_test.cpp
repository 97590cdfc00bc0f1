// flyball account, run as users run it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Two operations on a processor: 1.0 to 1.2 s and 1.1 to 1.4 s.
constexpr const char* kEvents = R"({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}},
  {"ph": "X", "name": "m/layer_0/dense/MatMul", "pid": 1, "tid": 1, "ts": 1000000, "dur": 200000},
  {"ph": "X", "name": "m/layer_1/dense/MatMul", "pid": 1, "tid": 2, "ts": 1100000, "dur": 300000}
]})";

// 100 W from 0.9 s, 200 W from 1.3 s to 1.5 s. MatMul of layer 0: 0.1 s alone, 0.1 s of half: 15 J. Of layer 1: 5 J, 0.1 s
// at 100 W and 0.1 s at 200 W: 35 J. Idle: 0.1 s at 100 W, and about 0.1 s at 200 W: a last reading holds for as long as
// the others, nearly.
constexpr const char* kPower = "timestamp,device,power_w\n0.9,CPU:0,100\n1.1,CPU:0,100\n1.3,CPU:0,200\n";

struct Traces {
  TempFolder folder;
  std::string events = folder / "events.json";
  std::string power = folder / "power.csv";
  Traces() {
    write_file(events, kEvents);
    write_file(power, kPower);
  }
};

TEST(Account, GivesEveryJouleToSomething) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  const double measured = result.at("measured_j");
  EXPECT_NEAR(measured, 80.0, 0.5);
  EXPECT_NEAR(result.at("attributed_j"), 50.0, 50e-9);
  EXPECT_NEAR(result.at("idle_j").get<double>() + 50.0, measured, 1e-9 * measured);
  ASSERT_EQ(result.at("devices").size(), 1u);
  EXPECT_EQ(result.at("devices").at(0).at("device"), "CPU:0");
  ASSERT_EQ(result.at("footprint").size(), 2u);
  const json& most = result.at("footprint").at(0);
  EXPECT_EQ(most.at("name"), "m/layer_1/dense/MatMul");
  EXPECT_EQ(most.at("device"), "CPU:0");
  EXPECT_NEAR(most.at("energy_j"), 35.0, 35e-9);
  EXPECT_NEAR(most.at("busy_s"), 0.3, 1e-9);
  EXPECT_NEAR(most.at("mean_power_w"), 35.0 / 0.3, 1e-6);
}

TEST(Account, PrintsTheTopConsumers) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--top", "1"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(" J = attributed 50.000 J (62."));
  EXPECT_THAT(ran.out, HasSubstr("m/layer_1/dense/MatMul"));
  EXPECT_THAT(ran.out, HasSubstr("and 1 more with 15.000 J"));
}

TEST(Account, SummarisesAndWritesFiles) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--summary", "--json",
                               traces.folder / "f.json", "--csv", traces.folder / "f.csv", "--html",
                               traces.folder / "f.html", "--svg", traces.folder / "f.dot", "--module", "m"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json footprint = json::parse(file_text(traces.folder / "f.json"));
  ASSERT_EQ(footprint.at("footprint").size(), 1u);
  EXPECT_EQ(footprint.at("footprint").at(0).at("name"), "m/layer_*/dense/MatMul");
  EXPECT_NEAR(footprint.at("footprint").at(0).at("energy_j"), 50.0, 1e-7);
  EXPECT_THAT(file_text(traces.folder / "f.csv"), HasSubstr("m/layer_*/dense/MatMul,CPU:0,forward,50"));
  EXPECT_THAT(file_text(traces.folder / "f.html"), HasSubstr("edd-data"));
  EXPECT_THAT(file_text(traces.folder / "f.html"), Not(HasSubstr("http://localhost")));
  EXPECT_THAT(file_text(traces.folder / "f.dot"), HasSubstr("layer_1\\n70.00 %"));
}

TEST(Account, MethodsAgreeOnWhatTheyMeasured) {
  const Traces traces;
  const Ran ran = run_flyball(
      {"account", "--events", traces.events, "--power", traces.power, "--method", "regress", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double measured = ran.json().at("measured_j");
  EXPECT_NEAR(measured, 80.0, 0.5);
  EXPECT_NEAR(ran.json().at("attributed_j").get<double>() + ran.json().at("idle_j").get<double>(), measured,
              1e-9 * measured);
}

TEST(Account, RunsComparedAndJudged) {
  const Traces traces;
  const std::string a = traces.folder / "a.json";
  const std::string b = traces.folder / "b.json";
  ASSERT_EQ(run_flyball({"account", "--events", traces.events, "--power", traces.power, "--json", a}).status, 0);
  write_file(traces.power, "timestamp,device,power_w\n0.9,CPU:0,200\n1.1,CPU:0,200\n1.3,CPU:0,400\n");
  ASSERT_EQ(run_flyball({"account", "--events", traces.events, "--power", traces.power, "--json", b}).status, 0);
  const Ran diff = run_flyball({"account", "diff", a, b, "--format", "json"});
  ASSERT_EQ(diff.status, 0) << diff.err;
  EXPECT_NEAR(diff.json().at("energy_correlation"), 1.0, 1e-9);
  EXPECT_NEAR(diff.json().at("mean_energy_difference_j"), 25.0, 1e-6);
  EXPECT_EQ(diff.json().at("moves").at(0).at("name"), "m/layer_1/dense/MatMul");

  std::filesystem::create_directory(traces.folder / "run");
  write_file(traces.folder / "run/events.json", kEvents);
  write_file(traces.folder / "run/power.csv", kPower);
  const Ran quality = run_flyball({"account", "quality", a, traces.folder / "run", "--format", "json"});
  ASSERT_EQ(quality.status, 0) << quality.err;
  EXPECT_EQ(quality.json().at("stability").size(), 2u);
  EXPECT_EQ(quality.json().at("asss").at(0).at("every"), 1);

  const Ran mean =
      run_flyball({"account", "--events", traces.events, "--power", traces.power, "--events",
                   traces.folder / "run/events.json", "--power", traces.folder / "run/power.csv", "--format", "json"});
  ASSERT_EQ(mean.status, 0) << mean.err;
  EXPECT_EQ(mean.json().at("runs"), 2);
  EXPECT_NEAR(mean.json().at("measured_j"), 120.0, 1.0);  // of 80 and 160
  // 35 and 70 J: 35 / sqrt(2) around their mean
  EXPECT_NEAR(mean.json().at("footprint").at(0).at("energy_std_j"), 35.0 / std::sqrt(2.0), 1e-6);
}

// A counter of 100, 500, 700 and 900 J after 1, 2, 3 and 4 s, an operation in each second: 100, 400, 200 and 200 J. From
// every second reading it is 250, 250, 200 and 200 J. Around their means (-125, 175, -25, -25) and (25, 25, -25, -25),
// Pearson's correlation is 2,500 / (sqrt(47,500) * 50) = 0.2294.
TEST(Account, ThinsCountersOut) {
  const TempFolder folder;
  std::string events;
  for (int i = 0; i < 4; ++i) {
    events += R"(, {"ph": "X", "name": "part_)" + std::to_string(i) + R"(", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 * i) + R"(, "dur": 1000000})";
  }
  std::filesystem::create_directory(folder / "run");
  write_file(folder / "run/events.json",
             R"({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})" +
                 events + "]}");
  write_file(folder / "run/power.csv",
             "timestamp,device,energy_j\n0,CPU:0,0\n1,CPU:0,100\n2,CPU:0,500\n3,CPU:0,700\n4,CPU:0,900\n");
  const Ran quality = run_flyball({"account", "quality", folder / "run", "--format", "json"});
  ASSERT_EQ(quality.status, 0) << quality.err;
  const json every_second = quality.json().at("asss").at(1);
  EXPECT_EQ(every_second.at("every"), 2);
  EXPECT_NEAR(every_second.at("similarity"), 2500.0 / (std::sqrt(47500.0) * 50.0), 1e-9);
}

// A counter at a constant 50 W, read in unequal steps, tells nothing of two operations.
TEST(Account, RegressSaysWhenPowerTellsNothing) {
  const Traces traces;
  std::string power = "timestamp,device,energy_j\n";
  for (const char* row : {"0.9,CPU:0,45", "1.0,CPU:0,50", "1.14,CPU:0,57", "1.3,CPU:0,65", "1.5,CPU:0,75"}) {
    power += std::string(row) + "\n";
  }
  write_file(traces.power, power);
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--method", "regress"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("3 powers fitted to 4 readings that do not vary"));
  EXPECT_THAT(ran.out, Not(HasSubstr("explain")));
}

// Three runs of twelve layers that draw 10, 20 and 30 J each: 120, 240 and 360 J of all, 120 J around their mean. Were the
// layers independent it would be 34.6 J.
TEST(Account, SummarisesEachRunBeforeItsStatistics) {
  const TempFolder folder;
  std::string events = R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})";
  for (int i = 0; i < 12; ++i) {
    events += R"(, {"ph": "X", "name": "layer_)" + std::to_string(i) + R"(/dense", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 * i) + R"(, "dur": 1000000})";
  }
  write_file(folder / "events.json", events + "]}");
  std::vector<std::string> arguments = {"account", "--summary", "--format", "json"};
  for (const int watts : {10, 20, 30}) {
    const std::string power = folder / (std::to_string(watts) + ".csv");
    write_file(power, "timestamp,device,energy_j\n0,CPU:0,0\n12,CPU:0," + std::to_string(12 * watts) + "\n");
    arguments.insert(arguments.end(), {"--events", folder / "events.json", "--power", power});
  }
  const Ran ran = run_flyball(arguments);
  ASSERT_EQ(ran.status, 0) << ran.err;
  ASSERT_EQ(ran.json().at("footprint").size(), 1u);
  const json row = ran.json().at("footprint").at(0);
  EXPECT_EQ(row.at("name"), "layer_*/dense");
  EXPECT_NEAR(row.at("energy_j"), 240.0, 1e-9);
  EXPECT_NEAR(row.at("energy_std_j"), 120.0, 1e-9);
  EXPECT_NEAR(row.at("mean_power_std_w"), 10.0, 1e-9);
}

// A name that would clear the screen: escaped in text and errors, what it is in JSON and CSV.
TEST(Account, ForeignNamesDoNotReachTheTerminal) {
  const Traces traces;
  const std::string name = "m/\x1b[2Jlayer\xC2\x9B";
  write_file(traces.events,
             R"([{"ph": "X", "name": "m/\u001b[2Jlayer\u009b", "pid": 1, "tid": 1, "ts": 1000000, "dur": 1000}])");
  const std::vector<std::string> account = {"account", "--events", traces.events, "--power", traces.power};
  std::vector<std::string> arguments = account;
  arguments.insert(arguments.end(), {"--csv", traces.folder / "f.csv"});
  const Ran text = run_flyball(arguments);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("m/\\u001b[2Jlayer\\u009b"));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text.out, Not(HasSubstr("\x9B")));
  EXPECT_THAT(file_text(traces.folder / "f.csv"), HasSubstr(name + ",CPU:0,"));
  arguments = account;
  arguments.insert(arguments.end(), {"--format", "json"});
  EXPECT_EQ(run_flyball(arguments).json().at("footprint").at(0).at("name"), name);
  const Ran failed = run_flyball({"account", "--events", "\x1b[2J.json", "--power", traces.power});
  EXPECT_THAT(failed.err, HasSubstr("\\u001b[2J.json"));
  EXPECT_THAT(failed.err, Not(HasSubstr("\x1b")));
}

// Pipes hold the program where it shall be when Ctrl-C comes: in the middle of reading, and of writing.
TEST(Account, EndsAtOnceWhenInterrupted) {
  const Traces traces;
  const std::string pipe = traces.folder / "pipe.csv";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  {
    const Running reading({"account", "--events", traces.events, "--power", pipe}, "/dev/null", traces.folder.path());
    const FileDescriptor power(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC));
    reading.interrupt();
    const Ran ran = reading.wait();
    EXPECT_EQ(ran.status, 130);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("error: interrupted"));
  }
  std::string events = "[";  // whose footprint is more than a pipe takes
  for (int i = 0; i < 2000; ++i) {
    events += R"({"ph": "X", "name": "operation_)" + std::to_string(i) + R"(", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 + i) + R"(, "dur": 1},)";
  }
  events.back() = ']';
  write_file(traces.events, events);
  const std::string result = traces.folder / "result.json";
  const Running writing({"account", "--events", traces.events, "--power", pipe, "--json", result}, "/dev/null",
                        traces.folder.path());
  const std::string partial = result + ".partial." + std::to_string(writing.pid());
  ASSERT_EQ(::mkfifo(partial.c_str(), 0600), 0);
  write_file(pipe, kPower);
  const FileDescriptor half(::open(partial.c_str(), O_RDONLY | O_CLOEXEC));
  writing.interrupt();
  EXPECT_EQ(writing.wait().status, 130);
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_FALSE(std::filesystem::exists(result));
}

TEST(Account, SaysWhatIsWrong) {
  const Traces traces;
  const auto expect = [&](std::vector<std::string> arguments, int status, const std::string& said) {
    arguments.insert(arguments.begin(), "account");
    const Ran ran = run_flyball(arguments);
    EXPECT_EQ(ran.status, status) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(said));
  };
  expect({"--events", traces.events}, 2, "--power");
  expect({"--events", traces.events, "--power", traces.power, "--clock-offset", "soon"}, 2, "--clock-offset");
  expect({"--events", traces.events, "--power", traces.power, "--similar", "(["}, 2, "pattern");
  expect({"--events", traces.events, "--power", traces.power, "--svg", traces.folder / "x.svg", "--module", "n"}, 2,
         "--module");
  expect({"--events", traces.folder / "none.json", "--power", traces.power}, 1, "none.json");
  expect({"--events", traces.power, "--power", traces.power}, 3, "power.csv");
  expect({"diff", traces.events, traces.events}, 3, "footprint");
}

}  // namespace
}  // namespace flyball::testing
