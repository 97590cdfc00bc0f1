// The C interface's accounting sessions, in a program that loads the library, with the real agent on simulated GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "base/text.h"
#include "client/agent_client.h"
#include "flyball/flyball.h"
#include "loop/library.h"
#include "sim/simulated.h"
#include "support/agent_process.h"
#include "support/temp_folder.h"
#include "trace/power_trace.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AccountingLibrary : public Library {
 public:
  AccountingLibrary() {
    find(options_init, "flyball_account_options_init");
    find(start, "flyball_account_start");
    find(stop, "flyball_account_stop");
    find(get_state, "flyball_account_get_state");
    find(read, "flyball_account_read");
    find(write, "flyball_account_write");
    find(drop, "flyball_account_drop");
  }

  decltype(&flyball_account_options_init) options_init;
  decltype(&flyball_account_start) start;
  decltype(&flyball_account_stop) stop;
  decltype(&flyball_account_get_state) get_state;
  decltype(&flyball_account_read) read;
  decltype(&flyball_account_write) write;
  decltype(&flyball_account_drop) drop;
};

class CAccounting : public ::testing::Test {
 protected:
  CAccounting() {
    agent_.start();
    ::setenv("FLYBALL_AGENT", socket_.c_str(), 1);
    library_.options_init(&options_, sizeof options_);
  }
  ~CAccounting() override { ::unsetenv("FLYBALL_AGENT"); }

  flyball_account_state state_of(const char* name) {
    flyball_account_state state{};
    state.size = sizeof state;
    EXPECT_EQ(library_.get_state(nullptr, name, &state), FLYBALL_OK) << library_.last_error();
    return state;
  }
  bool wait_for_rows(const char* name, std::uint64_t rows) {
    return wait_until([&] { return state_of(name).rows >= rows; });
  }
  std::string trace_of(const char* name) {
    std::string trace;
    const auto sink = [](void* user, const char* data, std::size_t size) {
      static_cast<std::string*>(user)->append(data, size);
      return 0;
    };
    EXPECT_EQ(library_.read(nullptr, name, sink, &trace), FLYBALL_OK) << library_.last_error();
    return trace;
  }

  AccountingLibrary library_;
  TempFolder folder_;
  const std::string socket_ = folder_ / "agent.sock";
  SimulatedMachine machine_{"a100", 2, 1.0};
  AgentProcess agent_{machine_.name(), folder_.path()};
  flyball_account_options options_{};
};

TEST_F(CAccounting, RecordsWhatRunsBetweenStartAndStop) {
  const unsigned gpus[] = {1};
  options_.agent = socket_.c_str();
  options_.name = "epoch";
  options_.gpus = gpus;
  options_.gpu_count = 1;
  ASSERT_EQ(library_.start(&options_), FLYBALL_OK) << library_.last_error();
  EXPECT_EQ(state_of("epoch").state, FLYBALL_ACCOUNT_RECORDING);
  EXPECT_STREQ(state_of("epoch").ended, "");
  ASSERT_TRUE(wait_for_rows("epoch", 10));
  flyball_account_state state{};
  state.size = sizeof state;
  ASSERT_EQ(library_.stop(nullptr, "epoch", &state), FLYBALL_OK) << library_.last_error();
  EXPECT_EQ(state.state, FLYBALL_ACCOUNT_STOPPED);
  EXPECT_STREQ(state.devices, "GPU:1");
  EXPECT_STREQ(state.ended, "it was stopped");
  EXPECT_STREQ(state.failures, "");
  EXPECT_GE(state.rows, 10u);

  const std::string trace = trace_of("epoch");
  EXPECT_EQ(trace.size(), state.bytes);
  EXPECT_EQ(trace, AgentClient(agent_.endpoint(), "").session_trace("epoch")) << "as any other client has it";
  DeviceTable devices;
  const auto power = open_power_text("trace.csv", trace, {}, devices);
  EXPECT_LE(to_seconds(power->stats().first).value(), state.begin_unix_s);
  EXPECT_GE(to_seconds(power->stats().last).value(), state.begin_unix_s + state.length_s);
  EXPECT_GT(power->stats().sensors.at(0).energy, Joules(0));

  const std::string file = folder_ / "power.csv";
  ASSERT_EQ(library_.write(nullptr, "epoch", file.c_str()), FLYBALL_OK) << library_.last_error();
  EXPECT_EQ(read_text_file(file), trace);
  EXPECT_EQ(library_.stop(nullptr, "epoch", nullptr), FLYBALL_OK) << "again does nothing";
  EXPECT_EQ(library_.drop(nullptr, "epoch"), FLYBALL_OK);
  EXPECT_EQ(library_.write(nullptr, "epoch", file.c_str()), FLYBALL_SYSTEM);
  EXPECT_THAT(library_.last_error(), HasSubstr("you have no session 'epoch' here"));
  EXPECT_EQ(read_text_file(file), trace) << "what could not be read again stays";
}

TEST_F(CAccounting, NullsMeanTheDefaults) {
  ASSERT_EQ(library_.start(nullptr), FLYBALL_OK) << library_.last_error();
  EXPECT_STREQ(state_of(nullptr).devices, "GPU:0,GPU:1");
  EXPECT_STREQ(state_of("default").devices, "GPU:0,GPU:1");
  EXPECT_EQ(library_.stop("", "", nullptr), FLYBALL_OK) << library_.last_error();
  EXPECT_THAT(trace_of(nullptr), StartsWith("# flyball power trace, version 1\n"));
}

// A session belongs to no process.
TEST_F(CAccounting, AnotherProcessOfTheUserMayStopIt) {
  ASSERT_EQ(library_.start(nullptr), FLYBALL_OK) << library_.last_error();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(library_.stop(nullptr, nullptr, nullptr));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(state_of(nullptr).state, FLYBALL_ACCOUNT_STOPPED);
}

TEST_F(CAccounting, ASinkMayEndTheReading) {
  ASSERT_EQ(library_.start(nullptr), FLYBALL_OK) << library_.last_error();
  int calls = 0;
  const auto sink = [](void* user, const char*, std::size_t) { return ++*static_cast<int*>(user); };
  ASSERT_TRUE(wait_for_rows(nullptr, 2));
  EXPECT_EQ(library_.read(nullptr, nullptr, sink, &calls), FLYBALL_OK) << library_.last_error();
  EXPECT_EQ(calls, 1);
}

TEST_F(CAccounting, SaysWhatIsWrong) {
  const auto refused = [&](int code, int expected, const char* words) {
    EXPECT_EQ(code, expected);
    EXPECT_THAT(library_.last_error(), HasSubstr(words));
  };
  options_.name = "a b";
  refused(library_.start(&options_), FLYBALL_USAGE, "name: holds other characters than letters, digits and . _ -");
  refused(library_.stop(nullptr, "../leases", nullptr), FLYBALL_USAGE,
          "name: holds other characters than letters, digits and . _ -");
  refused(library_.stop(nullptr, "..", nullptr), FLYBALL_USAGE, "name: consists of dots alone");
  refused(library_.drop(nullptr, "\xff"), FLYBALL_USAGE, "name: holds other characters than letters, digits and . _ -");
  options_.name = "a";
  options_.row_period_s = std::numeric_limits<double>::quiet_NaN();
  refused(library_.start(&options_), FLYBALL_USAGE, "row_period_s: is nan, out of range");
  options_.row_period_s = 3601.0;
  refused(library_.start(&options_), FLYBALL_USAGE, "row_period_s: is 3601.0, out of range");
  options_.row_period_s = 0.001;
  refused(library_.start(&options_), FLYBALL_USAGE, "this agent samples every 4 ms");
  options_.row_period_s = 0.0;
  const unsigned none = 7;
  options_.gpus = &none;
  options_.gpu_count = 1;
  refused(library_.start(&options_), FLYBALL_SYSTEM, "there is no GPU:7");
  options_.gpu_count = 0;
  refused(library_.start(&options_), FLYBALL_USAGE, "there is nothing to record");
  options_.gpus = nullptr;
  options_.size = 0;
  refused(library_.start(&options_), FLYBALL_USAGE, "size is not set");
  options_.size = sizeof options_;
  flyball_account_state state{};
  refused(library_.get_state(nullptr, "a", &state), FLYBALL_USAGE, "size is not set");
  refused(library_.read(nullptr, "a", nullptr, nullptr), FLYBALL_USAGE, "the sink is null");
  refused(library_.write(nullptr, "a", nullptr), FLYBALL_USAGE, "no file is named");
  refused(library_.stop(nullptr, "a", nullptr), FLYBALL_SYSTEM, "you have no session 'a' here");

  ASSERT_EQ(library_.start(&options_), FLYBALL_OK) << library_.last_error();
  refused(library_.start(&options_), FLYBALL_SYSTEM, "'a' records already");
  refused(library_.write(nullptr, "a", "/proc/no/such"), FLYBALL_SYSTEM, "/proc/no");

  const std::string nowhere = folder_ / "no-agent.sock";
  refused(library_.stop(nowhere.c_str(), "a", nullptr), FLYBALL_SYSTEM, "no-agent.sock");
  agent_.kill(SIGKILL);
  refused(library_.stop(nullptr, "a", nullptr), FLYBALL_SYSTEM, "agent.sock");
}

// Callers that were compiled with an older, shorter structure.
TEST_F(CAccounting, StructuresMayBeShorter) {
  options_.size = offsetof(flyball_account_options, gpus);
  options_.cpus = 0;  // beyond what it says it has
  options_.row_period_s = -1.0;
  ASSERT_EQ(library_.start(&options_), FLYBALL_OK) << library_.last_error();
  flyball_account_state state{};
  std::memset(&state, 0x5a, sizeof state);
  state.size = offsetof(flyball_account_state, rows);
  const std::uint64_t untouched = state.rows;
  ASSERT_EQ(library_.get_state(nullptr, nullptr, &state), FLYBALL_OK) << library_.last_error();
  EXPECT_EQ(state.size, offsetof(flyball_account_state, rows));
  EXPECT_EQ(state.state, FLYBALL_ACCOUNT_RECORDING);
  EXPECT_EQ(state.rows, untouched);
}

}  // namespace
}  // namespace flyball::testing
