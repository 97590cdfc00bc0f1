// flyball devices, run and record on simulated boards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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
#include "support/figures.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
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

// A simulated machine's processors, in a powercap tree of their own.
class SimulatedProcessors {
 public:
  explicit SimulatedProcessors(const std::string& powercap) {
    const Ran up =
        run_flyball({"sim", "up", "--name", name_, "--gpus", "1", "--model", "a100", "--powercap", powercap});
    if (up.status != 0) throw std::runtime_error(up.err);
    ::setenv("FLYBALL_POWERCAP_ROOT", powercap.c_str(), 1);
  }
  ~SimulatedProcessors() {
    ::setenv("FLYBALL_POWERCAP_ROOT", "/nonexistent", 1);
    static_cast<void>(run_flyball({"sim", "down", "--name", name_}));
  }
  SimulatedProcessors(const SimulatedProcessors&) = delete;
  SimulatedProcessors& operator=(const SimulatedProcessors&) = delete;

 private:
  std::string name_ = "processors-" + std::to_string(::getpid());
};

// This process, and those that it starts meanwhile.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t before_{};
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

TEST_F(Devices, GivesUpADriverThatHangsWhileItIsListed) {
  ::setenv("FLYBALL_DRIVER_TIMEOUT", "200ms", 1);
  for (const char* call : {"nvmlInit_v2", "nvmlDeviceGetCount_v2"}) {
    ASSERT_EQ(flyball_sim_fault(0, ("hang:" + std::string(call) + "=600").c_str()), FLYBALL_SIM_OK);
    const Ran ran = run_flyball({"devices"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("nvml: no answer: the driver has not answered in 0.2 s")) << call;
    EXPECT_THAT(run_flyball({"run", "--", "true"}).err, HasSubstr("nvml: no answer")) << call;
    take_faults_back(*machine_, 0);
  }
  // One board that hangs keeps none of the others.
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetUUID=600"), FLYBALL_SIM_OK);
  const nlohmann::json json = run_flyball({"devices", "--format", "json"}).json();
  ::unsetenv("FLYBALL_DRIVER_TIMEOUT");
  ASSERT_EQ(json["gpus"].size(), 1u);
  EXPECT_EQ(json["gpus"][0]["device"], "GPU:1");
  EXPECT_EQ(json["unavailable"][0]["device"], "GPU:0");
  EXPECT_EQ(json["unavailable"][0]["fault"], "timeout");
}

TEST_F(Devices, AsksADeviceThatHangsNothingMore) {
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetPowerUsage=600"), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetFieldValues=600"), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "hang:nvmlDeviceGetTemperature=600"), FLYBALL_SIM_OK);
  const nlohmann::json json = run_flyball({"devices", "--format", "json"}).json();
  ASSERT_EQ(json["gpus"].size(), 2u);
  const nlohmann::json& gpu = json["gpus"][0];
  EXPECT_EQ(gpu["sm_clock_mhz"], 210.0) << "asked before";
  ASSERT_EQ(gpu["problems"].size(), 1u);
  EXPECT_EQ(gpu["problems"][0]["fault"], "timeout");
  EXPECT_TRUE(gpu["power_limit_w"].is_null()) << "not asked after";
  EXPECT_EQ(gpu["clocks_may_be_set"]["fault"], "timeout");
  EXPECT_EQ(json["gpus"][1]["problems"].size(), 0u);
  // The picture of top is bounded as well.
  const nlohmann::json top = run_flyball({"top", "--direct", "--once", "--format", "json"}).json();
  EXPECT_EQ(top["gpus"][0]["health"], "unwell");
  EXPECT_EQ(top["gpus"][1]["health"], "well");
}

TEST_F(Devices, ShowsALostGpuInTop) {
  ASSERT_EQ(flyball_sim_fault(1, "lost"), FLYBALL_SIM_OK);
  const nlohmann::json top = run_flyball({"top", "--direct", "--once", "--format", "json"}).json();
  ASSERT_EQ(top["gpus"].size(), 2u);
  EXPECT_EQ(top["gpus"][1]["index"], 1);
  EXPECT_EQ(top["gpus"][1]["health"], "lost");
  EXPECT_THAT(top["gpus"][1]["trouble"].get<std::string>(), HasSubstr("GPU:1: device lost"));
}

// A terminal goes away under a `top` that outlives its hang-up, as under nohup: nobody looks any more.
TEST_F(Devices, TopEndsWithItsTerminal) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::signal(SIGHUP, SIG_IGN);
    exec_flyball({"top", "--direct", "--interval", "600s"});
  }
  std::string shown(1, ' ');
  while (shown.find("quits") == std::string::npos) {
    char next = 0;
    ASSERT_EQ(::read(terminal, &next, 1), 1) << shown;
    shown += next;
  }
  ::close(terminal);
  EXPECT_EQ(wait_for(child), 0);
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
  bool right = false;
  // A machine that stalls spoils the figures of a run, not of all of them.
  for (int attempt = 0; attempt < 5 && !right && !HasFailure(); ++attempt) {
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
    EXPECT_EQ(device["source"], "counter");
    EXPECT_EQ(device["complete"], true);
    EXPECT_EQ(json["energy_j"]["mean"], device["energy_j"]);
    const auto near = [](const nlohmann::json& value, double expected, double share) {
      return std::abs(value.get<double>() - expected) <= tolerance(share) * expected;
    };
    right = near(device["mean_w"], 60.0, 0.01) && near(device["energy_j"], 60.0 * time, 0.01) &&  // idle
            near(device["peak_w"], 60.0, 0.1) && near(device["sensor_period_s"], 0.1, 0.5);
  }
  EXPECT_TRUE(right) << file_text(file);
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
  EXPECT_EQ(json["runs_asked_for"], 5);
  EXPECT_EQ(json["ended_early"], true);
  EXPECT_THAT(failing.err, HasSubstr("1 of 5 runs were made"));
  const Ran told = run_flyball({"run", "--repeat", "5", "--", "sh", "-c", counted});
  EXPECT_THAT(told.err, HasSubstr(" 1 of 5 runs: the last one ended with status 1\n"));
}

TEST_F(Run, MarksWhatADeviceThatFailedMeanwhileTook) {
  const std::string file = folder_ / "energy.json";
  const std::vector<std::string> program = {"--", "sh", "-c", FLYBALL_PROGRAM " sim fault --gpu 1 lost; sleep 0.3"};
  std::vector<std::string> arguments = {"run", "--format", "json", "--output", file};
  arguments.insert(arguments.end(), program.begin(), program.end());
  EXPECT_EQ(run_flyball(arguments).status, 0);
  const nlohmann::json json = nlohmann::json::parse(file_text(file));
  EXPECT_EQ(json["complete"], false);
  EXPECT_EQ(json["devices"][0]["complete"], true);
  EXPECT_EQ(json["devices"][1]["complete"], false);
  EXPECT_EQ(json["runs"][0]["complete"], false);
  take_faults_back(*machine_, 1);
  arguments = {"run"};
  arguments.insert(arguments.end(), program.begin(), program.end());
  const Ran ran = run_flyball(arguments);
  EXPECT_THAT(ran.err, AllOf(ContainsRegex(" GPU:1 [^\n]* incomplete\n"), ContainsRegex(" total [^\n]* incomplete\n"),
                             Not(ContainsRegex(" GPU:0 [^\n]* incomplete")), HasSubstr("GPU:1: took more than this")));
}

TEST_F(Run, NamesAGpuThatCannotBeOpened) {
  ASSERT_EQ(flyball_sim_fault(1, "lost"), FLYBALL_SIM_OK);
  const Ran alone = run_flyball({"run", "--gpus", "1", "--", "true"});
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.err, HasSubstr("flyball: error: GPU:1: device lost"));
  const Ran rest = run_flyball({"run", "--", "sleep", "0.3"});
  EXPECT_EQ(rest.status, 0);
  EXPECT_THAT(rest.err,
              AllOf(ContainsRegex(" total [^\n]* incomplete\n"), HasSubstr("not measured: GPU:1: device lost")));
  EXPECT_THAT(run_flyball({"run", "--gpus", "0", "--", "sleep", "0.3"}).err, Not(HasSubstr("incomplete")));
}

TEST_F(Run, PrintsTheReportWhereItsFileCannotBeWrittenAnyMore) {
  // /dev/full can be opened and takes nothing, as a disk that has filled.
  const Ran ran = run_flyball({"run", "--output", "/dev/full", "--", "sleep", "0.1"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr(" total"), HasSubstr("cannot write /dev/full: No space left on device")));
  EXPECT_EQ(run_flyball({"run", "--output", "/dev/full", "--", "sh", "-c", "exit 4"}).status, 4);
}

TEST_F(Run, LeavesASensorPeriodOutThatItDoesNotKnow) {
  // Nothing moves: a counter that stands still shows no period.
  ASSERT_EQ(flyball_sim_fault(0, "counter-frozen"), FLYBALL_SIM_OK);
  const std::string file = folder_ / "energy.json";
  EXPECT_EQ(run_flyball({"run", "--gpus", "0", "--format", "json", "--output", file, "--", "true"}).status, 0);
  EXPECT_TRUE(nlohmann::json::parse(file_text(file))["runs"][0]["devices"][0]["sensor_period_s"].is_null());
  const std::string trace = folder_ / "power.csv";
  EXPECT_EQ(run_flyball({"record", "-o", trace, "--gpus", "0", "--", "true"}).status, 0);
  EXPECT_THAT(file_text(trace), AllOf(HasSubstr("# device GPU:0: "), Not(HasSubstr("sensor_period_s"))));
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
      {{"run", "ls", "-l"}, "there is no option -l; a program with its options stands after --"},
      {{"run", "--gpus", "0,x", "--", "true"}, "not '0,x'"},
      {{"run", "--gpus", "7", "--", "true"}, "there is no GPU:7; this machine has GPU:0, GPU:1"},
      {{"run", "--period", "1us", "--", "true"}, "a sampling period must be"},
      {{"run", "--repeat", "0", "--", "true"}, "a whole number from 1"},
      {{"run", "--gpus", "none", "--no-cpu", "--", "true"}, "leave nothing to measure"},
      {{"record", "--", "true"}, "--output is required"},
      {{"record", "-o", folder_ / "p.csv", "--duration", "1s", "--", "true"}, "drop one of the two"},
  };
  for (const WrongUse& use : uses) {
    const Ran ran = run_flyball(use.arguments);
    EXPECT_EQ(ran.status, 2) << use.words;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(use.words));
    EXPECT_THAT(ran.err, AllOf(StartsWith("flyball: error: "), Not(HasSubstr("error: flyball"))));
  }
}

class RecordCommand : public OnSimulatedBoards {
 protected:
  struct Trace {
    std::vector<double> times;  // of GPU:0
    std::vector<double> values;
    std::size_t rows = 0;
  };

  // A machine that stalls dates a change late, which takes from one row what it gives to the next.
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

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

TEST_F(RecordCommand, WritesEveryChangeOfTheSensorsWhileAProgramRuns) {
  const std::string file = folder_ / "power.csv";
  const Ran ran = run_flyball({"record", "-o", file, "--", "sh", "-c", "echo said; sleep 1; exit 5"});
  EXPECT_EQ(ran.status, 5);
  EXPECT_EQ(ran.out, "said\n");
  EXPECT_THAT(ran.err, HasSubstr("rows of 2 devices"));
  EXPECT_THAT(file_text(file), AllOf(StartsWith("# flyball power trace, version 1\n"), HasSubstr("CLOCK_MONOTONIC + "),
                                     HasSubstr("# device GPU:1: counter")));
  const Trace trace = read(file, "energy_j");
  ASSERT_GE(trace.times.size(), 5u);  // ten changes a second
  EXPECT_EQ(trace.values.front(), 0.0);
  std::vector<double> watts;
  for (std::size_t i = 1; i < trace.times.size(); ++i) {
    watts.push_back((trace.values[i] - trace.values[i - 1]) / (trace.times[i] - trace.times[i - 1]));
  }
  EXPECT_NEAR(median(watts), 60.0, tolerance(0.1) * 60.0);
  EXPECT_NEAR(trace.times.back(), static_cast<double>(std::time(nullptr)), 120.0);
}

TEST_F(RecordCommand, CoversTheProgramFromItsBeginToItsEnd) {
  const std::string file = folder_ / "power.csv";
  const std::string stamps = folder_ / "stamps";
  const Ran ran = run_flyball({"record", "-o", file, "--gpus", "0", "--", "sh", "-c",
                               "date +%s.%N > " + stamps + "; sleep 0.3; date +%s.%N >> " + stamps});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Trace trace = read(file, "energy_j");
  ASSERT_FALSE(trace.times.empty());
  double begin = 0.0;
  double end = 0.0;
  std::ifstream(stamps) >> begin >> end;
  EXPECT_LE(trace.times.front(), begin) << "operations of the first sensor period would have no power";
  EXPECT_GE(trace.times.back(), end);
}

// On one processor every 4 ms cost too much, on any machine.
TEST_F(RecordCommand, ReadsProcessorsLessOftenOnASmallMachineUnlessAPeriodIsAskedFor) {
  const SimulatedProcessors processors(folder_ / "powercap");
  const OnOneProcessor one;
  const std::string file = folder_ / "power.csv";
  const std::vector<std::string> words = {"record", "-o", file, "--gpus", "none", "--duration"};
  const auto for_time = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_flyball(more);
  };
  const Ran ran = for_time({"10s"});  // a busy machine takes seconds to learn what reading costs
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, ContainsRegex("flyball: CPU:0.* read every [0-9]+ ms, to take no more than 0.1 % of 1 "
                                     "processor; --period 4ms reads every 4 ms"));
  EXPECT_THAT(file_text(file), ContainsRegex("# device CPU:0: read every [0-9]+ ms to cost less\n"));
  const Ran always = for_time({"4s", "--period", "4ms"});
  EXPECT_EQ(always.status, 0) << always.err;
  EXPECT_THAT(always.err, Not(HasSubstr("read every")));
  EXPECT_THAT(file_text(file), Not(HasSubstr("read every")));
}

TEST_F(RecordCommand, WritesPowerAndEndsAfterItsTime) {
  const std::string file = folder_ / "power.csv";
  const Ran ran = run_flyball({"record", "-o", file, "--quantity", "power", "--gpus", "0", "--duration", "1s"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Trace trace = read(file, "power_w");
  ASSERT_GE(trace.values.size(), 5u);
  EXPECT_EQ(trace.values.size(), trace.rows);
  EXPECT_NEAR(median(trace.values), 60.0, tolerance(0.1) * 60.0);
}

TEST_F(RecordCommand, EndsCleanlyAtCtrlC) {
  const std::string file = folder_ / "power.csv";
  const Running running({"record", "-o", file}, "/dev/null", FLYBALL_SOURCE_DIR);
  ASSERT_TRUE(wait_until(
      [&] { return std::filesystem::exists(file) && file_text(file).find(",GPU:0,") != std::string::npos; }));
  running.interrupt();
  const Ran ran = running.wait();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_GE(read(file, "energy_j").rows, 2u);
}

TEST_F(RecordCommand, TellsAFullDiskAndLetsTheProgramEnd) {
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

TEST_F(RecordCommand, KeepsTheOldTraceWhereTheProgramCannotStart) {
  const std::string file = folder_ / "power.csv";
  write_file(file, "the trace of last time\n");
  EXPECT_EQ(run_flyball({"record", "-o", file, "--", "flyball-no-such-program"}).status, 127);
  EXPECT_EQ(file_text(file), "the trace of last time\n");
  EXPECT_EQ(run_flyball({"record", "-o", file, "--", "true"}).status, 0);
  EXPECT_THAT(file_text(file), StartsWith("# flyball power trace"));
  const std::string fresh = folder_ / "fresh.csv";
  EXPECT_EQ(run_flyball({"record", "-o", fresh, "--", "flyball-no-such-program"}).status, 127);
  EXPECT_FALSE(std::filesystem::exists(fresh)) << "an empty file would look like a trace";
}

TEST_F(RecordCommand, WritesToStandardOutput) {
  const Ran ran = run_flyball({"record", "-o", "-", "--gpus", "0", "--duration", "300ms"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith("# flyball power trace"), HasSubstr(",GPU:0,")));
  EXPECT_THAT(ran.err, HasSubstr("flyball: standard output: "));
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(RecordCommand, NotesWhereACounterFroze) {
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
