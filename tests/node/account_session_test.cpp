// flyball account start, stop and read with the real agent on simulated GPUs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "client/agent_client.h"
#include "sim/simulated.h"
#include "support/agent_process.h"
#include "support/temp_folder.h"
#include "trace/power_trace.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class AccountSession : public ::testing::Test {
 protected:
  AccountSession() {
    agent_.start();
    ::setenv("FLYBALL_AGENT", (folder_ / "agent.sock").c_str(), 1);
  }
  ~AccountSession() override { ::unsetenv("FLYBALL_AGENT"); }

  static Ran account(std::vector<std::string> words) {
    words.insert(words.begin(), "account");
    return run_flyball(words);
  }
  static json json_of(std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "json"});
    const Ran ran = account(std::move(words));
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.status == 0 ? ran.json() : json();
  }
  // While so much of simulated time passes as two boards' sensors need to change some times.
  [[nodiscard]] bool wait_for_rows(const std::string& name, std::size_t rows) const {
    AgentClient client(agent_.endpoint(), "");
    return wait_until([&] { return client.session(name).rows >= rows; });
  }

  TempFolder folder_;
  SimulatedMachine machine_{"a100", 2, 1.0};
  AgentProcess agent_{machine_.name(), folder_.path()};
};

TEST_F(AccountSession, GivesTheTraceThatAccountReadsAndTheFootprintAtOnce) {
  const Ran started = account({"start", "epoch"});
  ASSERT_EQ(started.status, 0) << started.err;
  EXPECT_EQ(started.out, "session 'epoch' records GPU:0, GPU:1\n");
  const double begin = json_of({"read", "epoch"}).at("begin_s");
  ASSERT_TRUE(wait_for_rows("epoch", 20));
  const json stopped = json_of({"stop", "epoch"});
  EXPECT_EQ(stopped.at("state"), "stopped");
  const double length = stopped.at("length_s");

  // One operation over the whole session: it is given all that the board drew, from its first moment to its last.
  const std::string events = folder_ / "trace.json";
  write_file(events, fmt::format(R"({{"traceEvents": [
    {{"ph": "M", "name": "process_name", "pid": 1, "args": {{"name": "/device:GPU:0"}}}},
    {{"ph": "X", "name": "m/step", "pid": 1, "tid": 1, "ts": {:.3f}, "dur": {:.3f}}}]}})",
                                 begin * 1e6, length * 1e6));
  const std::string power = folder_ / "power.csv";
  const Ran written = account({"read", "epoch", "--out", power});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_THAT(written.err, ContainsRegex("power.csv: [0-9]+ rows of GPU:0, GPU:1, "));
  EXPECT_EQ(account({"read", "epoch"}).out, file_text(power)) << "without --out to standard output";

  const json once = json_of({"read", "epoch", "--events", events});
  const json apart = json_of({"--events", events, "--power", power});
  EXPECT_EQ(once, apart);
  EXPECT_EQ(once.at("devices").at(0).at("uncovered_s"), 0.0) << "nothing of the session is unknown";
  // An idle A100 draws the same all the time.
  const double watts = once.at("footprint").at(0).at("mean_power_w");
  EXPECT_NEAR(once.at("attributed_j").get<double>(), watts * length, 0.02 * watts * length);
  EXPECT_GT(watts, 20.0);
}

TEST_F(AccountSession, LeavesRowsOutWithALongerPeriodAndNoEnergy) {
  ASSERT_EQ(account({"start", "all", "--gpus", "0"}).status, 0);
  ASSERT_EQ(account({"start", "few", "--gpus", "0", "--period", "1s"}).status, 0);
  ASSERT_TRUE(wait_for_rows("all", 25));
  const json few = json_of({"stop", "few"});
  const json all = json_of({"stop", "all"});
  EXPECT_LT(few.at("rows").get<int>(), all.at("rows").get<int>() / 2);
  const auto watts = [](const std::string& trace) {
    DeviceTable devices;
    const auto power = open_power_text("trace.csv", trace, {}, devices);
    const PowerTraceStats& stats = power->stats();
    return stats.sensors.at(0).energy / to_seconds(stats.last - stats.first);
  };
  AgentClient client(agent_.endpoint(), "");
  const double reference = watts(client.session_trace("all")).value();
  EXPECT_NEAR(watts(client.session_trace("few")).value(), reference, 0.05 * reference);
}

TEST_F(AccountSession, ListsAndDrops) {
  EXPECT_EQ(json_of({"list"}).at("sessions").size(), 0u);
  ASSERT_EQ(account({"start"}).status, 0);
  EXPECT_THAT(account({"list"}).out, ContainsRegex("default +recording"));
  EXPECT_EQ(account({"drop"}).status, 0);
  EXPECT_EQ(json_of({"list"}).at("sessions").size(), 0u);
}

TEST_F(AccountSession, SaysWhatIsWrong) {
  const Ran unknown = account({"read", "epoch"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("you have no session 'epoch' here"));
  EXPECT_THAT(account({"stop", "../leases"}).err, HasSubstr("the agent refuses"));
  EXPECT_THAT(account({"start", "a b"}).err, HasSubstr("name: holds other characters than letters, digits and . _ -"));
  EXPECT_THAT(account({"start", "a", "--gpus", "7"}).err, HasSubstr("there is no GPU:7"));
  EXPECT_THAT(account({"start", "a", "--period", "1ms"}).err, HasSubstr("this agent samples every 4 ms"));
  ASSERT_EQ(account({"start", "a"}).status, 0);
  EXPECT_THAT(account({"start", "a"}).err, HasSubstr("'a' records already"));
}

TEST_F(AccountSession, GoesWithAnAgentThatIsKilledAndTheNextStartsWithoutIt) {
  ASSERT_EQ(account({"start", "epoch"}).status, 0);
  agent_.kill(SIGKILL);
  const Ran dead = account({"read", "epoch"});
  EXPECT_EQ(dead.status, 1);
  EXPECT_THAT(dead.err, AllOf(HasSubstr(folder_ / "agent.sock"), HasSubstr("a session ends with its agent")));
  agent_.start();
  const Ran gone = account({"read", "epoch"});
  EXPECT_EQ(gone.status, 1);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("you have no session 'epoch' here"), HasSubstr("goes with its agent")));
  EXPECT_EQ(account({"start", "epoch"}).status, 0);
}

TEST_F(AccountSession, WarnsOfADeviceThatWasLostMeanwhile) {
  ASSERT_EQ(account({"start", "epoch"}).status, 0);
  ASSERT_TRUE(do_fault(*machine_, 1, *parse_fault("lost")));
  AgentClient client(agent_.endpoint(), "");
  ASSERT_TRUE(wait_until([&] { return !client.session("epoch").failures.empty(); }));
  const std::size_t rows = client.session("epoch").rows;
  ASSERT_TRUE(wait_for_rows("epoch", rows + 5)) << "the other device goes on";
  const Ran stopped = account({"stop", "epoch"});
  EXPECT_EQ(stopped.status, 0);
  EXPECT_THAT(stopped.err, HasSubstr("readings failed, rows are missing: GPU:1"));
}

// The counter goes on while it cannot be read: what flowed is in the next row, and the trace says that readings failed.
TEST_F(AccountSession, MarksWhereReadingsFailed) {
  ASSERT_EQ(account({"start", "epoch"}).status, 0);
  ASSERT_TRUE(wait_for_rows("epoch", 10));
  ASSERT_TRUE(do_fault(*machine_, 0, *parse_fault("error:nvmlDeviceGetTotalEnergyConsumption=999")));
  AgentClient client(agent_.endpoint(), "");
  ASSERT_TRUE(wait_until([&] { return client.session("epoch").failures.size() == 1; }));
  take_faults_back(*machine_, 0);
  const auto goes_on = [&] {
    const std::string trace = client.session_trace("epoch");
    const std::size_t mark = trace.rfind("GPU:0,\n");
    return mark != std::string::npos && trace.find("GPU:0,", mark + 1) != std::string::npos;
  };
  ASSERT_TRUE(wait_until(goes_on)) << client.session_trace("epoch");
  ASSERT_EQ(account({"stop", "epoch"}).status, 0);
  DeviceTable devices;
  const auto power = open_power_text("trace.csv", client.session_trace("epoch"), {}, devices);
  for (const PowerTraceSensor& sensor : power->stats().sensors) {
    EXPECT_EQ(sensor.failures, sensor.name == "GPU:0" ? 1u : 0u) << sensor.name;
    EXPECT_EQ(sensor.gaps, 0u) << sensor.name;
    EXPECT_FALSE(sensor.ends_failing) << sensor.name;
  }
}

// Another user's process sees nothing of it.
TEST_F(AccountSession, IsItsUsersOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  ASSERT_EQ(account({"start", "epoch"}).status, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(9);
    try {
      AgentClient client(agent_.endpoint(), "");
      if (!client.sessions().empty()) ::_exit(1);
      static_cast<void>(client.session_trace("epoch"));
    } catch (const AgentRefusal& refusal) {
      ::_exit(refusal.status() == 404 ? 0 : 2);
    } catch (const std::exception&) {
      ::_exit(3);
    }
    ::_exit(4);
  }
  EXPECT_EQ(wait_for(child), 0);
}

}  // namespace
}  // namespace flyball::testing
