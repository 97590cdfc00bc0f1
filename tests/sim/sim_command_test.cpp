// flyball sim, run as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "base/text.h"
#include "cli/program.h"
#include "flyball/sim.h"
#include "sim/simulated.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Runs `flyball sim ...` on a machine of its own, which goes with the test.
class SimCommand : public ::testing::Test {
 protected:
  SimCommand() { ::setenv("FLYBALL_SIM", name_.c_str(), 1); }
  ~SimCommand() override {
    run({"down"});
    ::unsetenv("FLYBALL_SIM");
  }
  static Ran run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sim");
    return run_flyball(arguments);
  }
  // The words of a shell, with the lines of `flyball sim env` before them; its standard output.
  static std::string shell(const std::string& command) {
    const std::string line = "eval \"$(" FLYBALL_PROGRAM " sim env)\" && " + command;
    FILE* pipe = ::popen(line.c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    EXPECT_EQ(::pclose(pipe), 0) << command;
    return out;
  }

  const std::string name_ = unique_machine_name();
};

TEST_F(SimCommand, UpIsIdempotentAndDownToo) {
  EXPECT_EQ(run({"up", "--gpus", "2", "--model", "a40"}).status, 0);
  const Ran again = run({"up", "--gpus", "2", "--model", "a40", "--format", "json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json().at("was_up"), true);
  EXPECT_EQ(again.json().at("gpus"), 2);
  const Ran other = run({"up", "--gpus", "3", "--model", "a40"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("is up already with 2 x a40, not 3 x a40"));
  EXPECT_EQ(run({"down", "--format", "json"}).json().at("was_up"), true);
  EXPECT_EQ(run({"down", "--format", "json"}).json().at("was_up"), false);
}

TEST_F(SimCommand, RefusesMachinesThatCannotBe) {
  for (const char* count : {"0", "17", "-1", "many"}) {
    const Ran ran = run({"up", "--gpus", count});
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr("--gpus takes a number of boards from 1 to 16, not '" + std::string(count) + "'"));
  }
}

TEST_F(SimCommand, IdealBoardsAreAskedForAndSaidSo) {
  EXPECT_THAT(run({"up", "--gpus", "1", "--ideal"}).out, HasSubstr("1 x a100-pcie, ideal is up"));
  const Ran other = run({"up", "--gpus", "1", "--seed", "2", "--switch-latency", "0.04"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("up already with 1 x a100-pcie, ideal, not 1 x a100-pcie, seed 2, clock changes in "
                                   "0.04 s"));
  const Ran both = run({"up", "--ideal", "--seed", "2"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("--seed is of the boards' differences, which --ideal takes away"));
}

TEST_F(SimCommand, LeavesAnotherUsersMachineAloneAndSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a machine another user's";
  ASSERT_EQ(run({"up", "--gpus", "1"}).status, 0);
  EXPECT_EQ(run({"status", "--format", "json"}).json().at("owner_uid"), 0);
  ASSERT_EQ(::chown(("/dev/shm" + machine_path(name_)).c_str(), 65534, 65534), 0);
  const Ran up = run({"up", "--gpus", "1"});
  EXPECT_THAT(up.out, HasSubstr("was up already, made by nobody (uid 65534)"));
  EXPECT_THAT(run({"up", "--gpus", "2"}).err, HasSubstr("it belongs to nobody (uid 65534): give this one a --name"));
  EXPECT_THAT(run({"status"}).out, HasSubstr("made by nobody (uid 65534)"));
  EXPECT_EQ(run({"down"}).out, "the simulated machine is down\n") << "root may";
}

TEST_F(SimCommand, ManyUpsAtOnceMakeOneMachine) {
  std::vector<Ran> ran(8);
  std::vector<std::thread> threads;
  for (Ran& one : ran) threads.emplace_back([&] { one = run({"up", "--gpus", "1", "--format", "json"}); });
  for (std::thread& thread : threads) thread.join();
  int made = 0;
  for (const Ran& one : ran) {
    ASSERT_EQ(one.status, 0) << one.err;
    made += one.json().at("was_up") == false ? 1 : 0;
  }
  EXPECT_EQ(made, 1);
}

TEST_F(SimCommand, WithoutAMachineEveryCommandSaysHowToMakeOne) {
  for (const char* command : {"status", "env", "work", "fault"}) {
    const Ran ran = run({command});
    EXPECT_EQ(ran.status, 2) << command;
    EXPECT_THAT(ran.err, HasSubstr("flyball sim up --name " + name_)) << command;
  }
}

TEST_F(SimCommand, WorkTakesWhatTheModelSays) {
  ASSERT_EQ(run({"up", "--ideal", "--gpus", "2", "--workload", "gpt3-1.3b", "--time-scale", "50"}).status, 0);
  const Ran ran = run({"work", "--gpu", "1", "--seconds", "2", "--kind", "forward", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NEAR(ran.json().at("time_s"), 2.0, 1e-6);
  EXPECT_NEAR(ran.json().at("energy_j"), 2.0 * (105 + 0.5 * 182 + 0.5 * 166), 1e-3);
  const Ran blocking = run({"work", "--gpu", "0", "--seconds", "1", "--kind", "blocking", "--format", "json"});
  ASSERT_EQ(blocking.status, 0) << blocking.err;
  EXPECT_GE(blocking.json().at("time_s"), 1.0);
  const double watts = blocking.json().at("energy_j").get<double>() / blocking.json().at("time_s").get<double>();
  EXPECT_NEAR(watts, 136, 1e-6);
  EXPECT_EQ(run({"work", "--gpu", "2"}).status, 2);
  EXPECT_EQ(run({"work", "--kind", "sideways"}).status, 2);
}

TEST_F(SimCommand, FaultsAreDoneShownAndTakenBack) {
  ASSERT_EQ(run({"up", "--gpus", "1"}).status, 0);
  ASSERT_EQ(run({"fault", "lost", "error:nvmlDeviceGetName=4"}).status, 0);
  EXPECT_EQ(run({"status", "--format", "json"}).json().at("gpus").at(0).at("faults"),
            (json{"lost", "error:nvmlDeviceGetName"}));
  const Ran work = run({"work"});
  EXPECT_EQ(work.status, 1);
  EXPECT_THAT(work.err, HasSubstr("simulated GPU 0 is lost"));
  const Ran wrong = run({"fault", "broken"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'broken' is no fault"));
  const Ran mistyped = run({"fault", "hang:nvmlDeviceGetPowerUsege=1"});
  EXPECT_EQ(mistyped.status, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("did you mean nvmlDeviceGetPowerUsage?"));
  ASSERT_EQ(run({"fault", "--clear"}).status, 0);
  EXPECT_EQ(run({"status", "--format", "json"}).json().at("gpus").at(0).at("faults"), json::array());
}

TEST_F(SimCommand, EnvLetsAnyProgramSeeTheMachine) {
  const TempFolder folder;
  ASSERT_EQ(run({"up", "--gpus", "1", "--powercap", folder / "it's a tree"}).status, 0);
  EXPECT_EQ(shell("printf %s \"$FLYBALL_SIM\""), name_);
  EXPECT_EQ(shell("cat \"$FLYBALL_POWERCAP_ROOT/intel-rapl:0/name\""), "package-0\n");
  EXPECT_EQ(shell("eval \"$(" FLYBALL_PROGRAM " sim env)\"; printf %s \"$LD_LIBRARY_PATH\" | tr ':' '\\n' | sort | "
                  "uniq -d"),
            "");
  EXPECT_EQ(shell("test -e \"${LD_LIBRARY_PATH%%:*}/libnvidia-ml.so.1\" && echo found"), "found\n");
}

TEST_F(SimCommand, ThePowercapTreeLivesAsLongAsTheMachine) {
  const TempFolder folder;
  const std::string root = folder / "tree";
  ASSERT_EQ(run({"up", "--powercap", root, "--powercap-range", "1000000000"}).status, 0);
  const auto energy = [&] { return std::stoull(read_text_file(root + "/intel-rapl:0/energy_uj")); };
  const auto first = energy();
  EXPECT_TRUE(wait_until([&] { return energy() > first; }));
  ASSERT_EQ(run({"down"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(root));
  EXPECT_EQ(run({"up", "--powercap-range", "1000000"}).status, 2);
}

TEST_F(SimCommand, RefusesWhatItCannotMake) {
  EXPECT_EQ(run({"up", "--gpus", "17"}).status, 2);
  EXPECT_EQ(run({"up", "--model", "tpu"}).status, 2);
  EXPECT_EQ(run({"up", "--time-scale", "-1"}).status, 2);
  EXPECT_EQ(run({"up", "--name", "a/b"}).status, 2);
  const Ran ran = run({"up", "--powercap", "/proc/nowhere"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(run({"down", "--format", "json"}).json().at("was_up"), false);  // nothing was left behind
}

}  // namespace
}  // namespace flyball::testing
