// flyball devices, run and record on simulated boards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/program.h"
#include "flyball/sim.h"
#include "sim/simulated.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSimFolder = std::filesystem::path(FLYBALL_SIM_LIBRARY).parent_path().string();

// A machine of its own for the programs that a test runs; no processors.
class OnSimulatedBoards : public ::testing::Test {
 protected:
  OnSimulatedBoards() {
    ::setenv("LD_LIBRARY_PATH", kSimFolder.c_str(), 1);
    ::setenv("FLYBALL_POWERCAP_ROOT", "/nonexistent", 1);
  }
  ~OnSimulatedBoards() override {
    for (const char* name : {"LD_LIBRARY_PATH", "FLYBALL_POWERCAP_ROOT"}) ::unsetenv(name);
  }

  SimulatedMachine machine_{"a100-sxm", 2, 1.0};
  TempFolder folder_;
};

class Devices : public OnSimulatedBoards {};

TEST_F(Devices, ListsWhatThereIsAndWhatCanBeSet) {
  const Ran ran = run_flyball({"devices"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out,
              AllOf(StartsWith("driver: nvml "), HasSubstr("GPU:0  NVIDIA A100"), HasSubstr("GPU:1  NVIDIA"),
                    HasSubstr("210 to 1410 MHz, 81 clocks; now 210 MHz"),
                    HasSubstr("60.0 W; limit 400 W (100 to 400 W, standard 400 W)"), Not(HasSubstr("sim up"))));
  const nlohmann::json json = run_flyball({"devices", "--format", "json"}).json();
  ASSERT_EQ(json["gpus"].size(), 2u);
  const nlohmann::json& gpu = json["gpus"][1];
  EXPECT_EQ(gpu["device"], "GPU:1");
  EXPECT_EQ(gpu["sm_clocks_mhz"].size(), 81u);
  EXPECT_EQ(gpu["sm_clocks_mhz"][0], 1410.0);
  EXPECT_EQ(gpu["power_limits_w"]["minimum"], 100.0);
  EXPECT_THAT(gpu["throttle_reasons"], ElementsAre("idle"));
  EXPECT_EQ(gpu["problems"].size(), 0u);
}

TEST_F(Devices, SaysWhyClocksMayNotBeSetAndWhatToDo) {
  ::unsetenv("FLYBALL_SIM_PRIVILEGED");
  ASSERT_EQ(flyball_sim_fault(0, "unprivileged"), FLYBALL_SIM_OK);
  const Ran ran = run_flyball({"devices"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("set clocks    no: "), HasSubstr("to mend: "), HasSubstr("sudo flyball agent")));
  const nlohmann::json json = run_flyball({"devices", "--format", "json"}).json();
  EXPECT_EQ(json["gpus"][0]["clocks_may_be_set"]["allowed"], false);
  EXPECT_EQ(json["gpus"][0]["clocks_may_be_set"]["fault"], "permission");
}

TEST_F(Devices, TellsAQuestionThatFailsAndAnswersTheOthers) {
  ASSERT_EQ(flyball_sim_fault(0, "error:nvmlDeviceGetTemperature=999"), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(1, "lost"), FLYBALL_SIM_OK);
  const Ran ran = run_flyball({"devices"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("problem       GPU:0: driver error: reading the temperature"),
                             HasSubstr("60.0 W; limit 400 W"), HasSubstr("GPU:1: device lost")));
}

TEST_F(Devices, SaysThatThereIsNothingAndHowToTryAllTheSame) {
  ::unsetenv("LD_LIBRARY_PATH");
  const Ran ran = run_flyball({"devices"});
  EXPECT_EQ(ran.status, 0);
  if (ran.out.find("GPU:0") != std::string::npos) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(ran.out, AllOf(HasSubstr("no GPU and no processor energy counter"), HasSubstr("flyball sim up"),
                             HasSubstr("rapl: no driver")));
  const Ran run = run_flyball({"run", "--", "true"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("there is nothing to measure here"));
}

class Run : public OnSimulatedBoards {};

TEST_F(Run, LeavesTheProgramAsItIsAndReportsBesideIt) {
  const Ran ran = run_flyball({"run", "--", "sh", "-c", "cat; echo said; echo wrong >&2; sleep 0.3; exit 3"}, "fed\n");
  EXPECT_EQ(ran.status, 3);
  EXPECT_EQ(ran.out, "fed\nsaid\n");
  EXPECT_THAT(ran.err, AllOf(StartsWith("wrong\n"), HasSubstr(" GPU:0"), HasSubstr(" total"), HasSubstr("s elapsed")));
}

TEST_F(Run, MeasuresTheBoardsThatItIsTold) {
  const std::string file = folder_ / "energy.json";
  const Ran ran =
      run_flyball({"run", "--gpus", "1", "--format", "json", "--output", file, "--", "sh", "-c", "sleep 0.5"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const nlohmann::json json = nlohmann::json::parse(file_text(file));
  EXPECT_THAT(json["command"], ElementsAre("sh", "-c", "sleep 0.5"));
  ASSERT_EQ(json["runs"].size(), 1u);
  ASSERT_EQ(json["runs"][0]["devices"].size(), 1u);
  const nlohmann::json& device = json["runs"][0]["devices"][0];
  const double time = json["runs"][0]["time_s"];
  EXPECT_EQ(device["device"], "GPU:1");
  EXPECT_GE(time, 0.5);
  EXPECT_NEAR(device["mean_w"].get<double>(), 60.0, 0.6);  // idle
  EXPECT_NEAR(device["energy_j"].get<double>(), 60.0 * time, 0.6 * time);
  EXPECT_NEAR(device["peak_w"].get<double>(), 60.0, 6.0);
  EXPECT_EQ(device["source"], "counter");
  EXPECT_EQ(device["complete"], true);
  EXPECT_NEAR(device["sensor_period_s"].get<double>(), 0.1, 0.05);
  EXPECT_EQ(json["energy_j"]["mean"], device["energy_j"]);
}

TEST_F(Run, RepeatsAndStopsAtAFailure) {
  const std::string file = folder_ / "energy.json";
  const std::string counted =
      "echo run >> " + (folder_ / "runs") + "; test $(wc -l < " + (folder_ / "runs") + ") -lt 3";
  const Ran all = run_flyball({"run", "--repeat", "2", "--", "sh", "-c", counted});
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.err, AllOf(HasSubstr("(2 runs, mean ± standard deviation)"), HasSubstr(" ± ")));
  const Ran failing =
      run_flyball({"run", "--repeat", "5", "--format", "json", "--output", file, "--", "sh", "-c", counted});
  EXPECT_EQ(failing.status, 1);
  const nlohmann::json json = nlohmann::json::parse(file_text(file));
  EXPECT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["exit_status"], 1);
}

TEST_F(Run, TellsHowTheProgramEnded) {
  EXPECT_EQ(run_flyball({"run", "--", "sh", "-c", "kill -9 $$"}).status, 137);
  const Ran missing = run_flyball({"run", "--", "flyball-no-such-program"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run 'flyball-no-such-program': No such file or directory"));
  write_file(folder_ / "text", "text\n");
  EXPECT_EQ(run_flyball({"run", "--", folder_ / "text"}).status, 126);
}

TEST_F(Run, PassesSignalsOn) {
  const std::string ready = folder_ / "ready";
  const Running running(
      {"run", "--", "sh", "-c", "trap 'exit 7' TERM; touch " + ready + "; while :; do sleep 0.05; done"}, "/dev/null",
      FLYBALL_SOURCE_DIR);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(ready); }));
  running.terminate();
  const Ran ran = running.wait();
  EXPECT_EQ(ran.status, 7);
  EXPECT_THAT(ran.err, HasSubstr("s elapsed"));
}

TEST_F(Run, SaysWhereAFigureDoesNotComeFromTheCounter) {
  ASSERT_EQ(flyball_sim_fault(0, "counter-missing"), FLYBALL_SIM_OK);
  const Ran ran = run_flyball({"run", "--", "sleep", "0.1"});
  EXPECT_THAT(ran.err, HasSubstr("GPU:0: integrated power, not the energy counter"));
}

struct WrongUse {
  std::vector<std::string> arguments;
  std::string words;
};

TEST_F(Run, RefusesWhatItCannotDo) {
  const std::vector<WrongUse> uses = {
      {{"run"}, "no program given"},
      {{"run", "ls", "-l"}, "there is no option -l"},
      {{"run", "--gpus", "0,x", "--", "true"}, "not '0,x'"},
      {{"run", "--gpus", "7", "--", "true"}, "there is no GPU:7; this machine has GPU:0, GPU:1"},
      {{"run", "--period", "1us", "--", "true"}, "a sampling period must be"},
      {{"run", "--repeat", "0", "--", "true"}, "a whole number from 1"},
      {{"record", "--", "true"}, "--output is required"},
      {{"record", "-o", folder_ / "p.csv", "--duration", "1s", "--", "true"}, "drop one of the two"},
  };
  for (const WrongUse& use : uses) {
    const Ran ran = run_flyball(use.arguments);
    EXPECT_EQ(ran.status, 2) << use.words;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(use.words));
  }
}

class Record : public OnSimulatedBoards {
 protected:
  struct Trace {
    std::vector<double> times;  // of GPU:0
    std::vector<double> values;
    std::size_t rows = 0;
  };

  [[nodiscard]] static Trace read(const std::string& file, const std::string& quantity) {
    Trace trace;
    const std::string text = file_text(file);
    CsvReader csv(file, text, {"timestamp", "device", quantity});
    double last = 0.0;
    while (csv.next()) {
      ++trace.rows;
      EXPECT_GE(csv.number("timestamp"), last) << "line " << csv.line();
      last = csv.number("timestamp");
      if (csv.text("device") != "GPU:0") continue;
      trace.times.push_back(csv.number("timestamp"));
      trace.values.push_back(csv.number(quantity));
    }
    return trace;
  }
};

TEST_F(Record, WritesEveryChangeOfTheSensorsWhileAProgramRuns) {
  const std::string file = folder_ / "power.csv";
  const Ran ran = run_flyball({"record", "-o", file, "--", "sh", "-c", "echo said; sleep 1; exit 5"});
  EXPECT_EQ(ran.status, 5);
  EXPECT_EQ(ran.out, "said\n");
  EXPECT_THAT(ran.err, HasSubstr("rows of 2 devices"));
  EXPECT_THAT(file_text(file), AllOf(StartsWith("# flyball power trace, version 1\n"), HasSubstr("CLOCK_MONOTONIC + "),
                                     HasSubstr("# device GPU:1: counter, sensor_period_s: ")));
  const Trace trace = read(file, "energy_j");
  ASSERT_GE(trace.times.size(), 5u);  // ten changes a second
  EXPECT_EQ(trace.values.front(), 0.0);
  const double time = trace.times.back() - trace.times.front();
  EXPECT_NEAR(trace.values.back(), 60.0 * time, 0.02 * 60.0 * time);
  EXPECT_NEAR(trace.times.back(), static_cast<double>(std::time(nullptr)), 120.0);
}

TEST_F(Record, WritesPowerAndEndsAfterItsTime) {
  const std::string file = folder_ / "power.csv";
  const Ran ran = run_flyball({"record", "-o", file, "--quantity", "power", "--gpus", "0", "--duration", "500ms"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Trace trace = read(file, "power_w");
  ASSERT_GE(trace.values.size(), 2u);
  EXPECT_EQ(trace.values.size(), trace.rows);
  for (const double watts : trace.values) EXPECT_NEAR(watts, 60.0, 6.0);
}

TEST_F(Record, EndsCleanlyAtCtrlC) {
  const std::string file = folder_ / "power.csv";
  const Running running({"record", "-o", file}, "/dev/null", FLYBALL_SOURCE_DIR);
  ASSERT_TRUE(wait_until(
      [&] { return std::filesystem::exists(file) && file_text(file).find(",GPU:0,") != std::string::npos; }));
  running.interrupt();
  const Ran ran = running.wait();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_GE(read(file, "energy_j").rows, 2u);
}

TEST_F(Record, TellsAFullDiskAndLetsTheProgramEnd) {
  const std::string done = folder_ / "done";
  const Ran ran = run_flyball({"record", "-o", "/dev/full", "--", "sh", "-c", "sleep 0.6; touch " + done + "; exit 4"});
  EXPECT_EQ(ran.status, 4);
  EXPECT_TRUE(std::filesystem::exists(done));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("cannot write /dev/full: No space left on device"), HasSubstr("status 4")));
  EXPECT_EQ(run_flyball({"record", "-o", "/dev/full", "--", "true"}).status, 1);
  const Ran nowhere = run_flyball({"record", "-o", "/nonexistent/power.csv", "--", "touch", folder_ / "started"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started")) << "refused before the program runs";
}

TEST_F(Record, NotesWhereACounterFroze) {
  const std::string file = folder_ / "power.csv";
  const Running running({"record", "-o", file, "--gpus", "0"}, "/dev/null", FLYBALL_SOURCE_DIR);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(file); }));
  ASSERT_EQ(flyball_sim_fault(0, "counter-frozen"), FLYBALL_SIM_OK);
  EXPECT_TRUE(wait_until([&] { return file_text(file).find("from here on frozen counter") != std::string::npos; }));
  running.interrupt();
  EXPECT_EQ(running.wait().status, 0);
}

}  // namespace
}  // namespace flyball::testing
