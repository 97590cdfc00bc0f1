// The training client and a planning server that does not let everybody register jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "client/plan_server.h"
#include "client/session.h"
#include "loop/node.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::ServerThread;
using testing::TempFolder;

constexpr const char* kRegistration = "registration-registration-registration";

class Registration : public ::testing::Test {
 protected:
  Registration() : server_(asking()) { forget(); }
  ~Registration() override { forget(); }

  static PlanningServerOptions asking() {
    PlanningServerOptions options = testing::local_options();
    options.registration_token = kRegistration;
    return options;
  }
  static void forget() {
    ::unsetenv("FLYBALL_REGISTRATION_TOKEN");
    ::unsetenv("FLYBALL_REGISTRATION_TOKEN_FILE");
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(server_.port()); }

  // A session without a GPU that joins; what it was told where it could not.
  [[nodiscard]] std::string refusal(const std::string& job, const std::string& token) const {
    std::mutex mutex;
    std::string told;
    SessionOptions options;
    options.server = address();
    options.job = testing::small_job(job);
    options.registration_token = token;
    options.profile = false;
    options.notice = [&](const std::string& words) {
      const std::scoped_lock lock(mutex);
      told = words;
    };
    SessionGpu gpu;
    gpu.meter = {"GPU:0", [] { return MeterReading{std::nullopt, Joules(1)}; }};
    Session session(options, std::move(gpu));
    const auto done = [&] {
      const std::scoped_lock lock(mutex);
      return !told.empty() || session.state().server_reachable;
    };
    EXPECT_TRUE(testing::wait_until(done, std::chrono::seconds(120)));
    const std::scoped_lock lock(mutex);
    return told;
  }

  ServerThread server_;
  TempFolder folder_;
};

TEST_F(Registration, ASessionShowsTheTokenThatItIsGiven) {
  EXPECT_THAT(refusal("a", ""), HasSubstr("registering a job takes"));
  EXPECT_THAT(refusal("a", "another-another-another-another-another"), HasSubstr("403"));
  EXPECT_EQ(refusal("a", kRegistration), "");
  EXPECT_EQ(refusal("a", ""), "");  // it is there now, and asks for its own token
}

TEST_F(Registration, OrWhatTheEnvironmentHas) {
  ::setenv("FLYBALL_REGISTRATION_TOKEN", kRegistration, 1);
  EXPECT_EQ(refusal("a", ""), "");
  ::unsetenv("FLYBALL_REGISTRATION_TOKEN");
  std::ofstream(folder_ / "token") << kRegistration << "\n";
  ::setenv("FLYBALL_REGISTRATION_TOKEN_FILE", (folder_ / "token").c_str(), 1);
  EXPECT_EQ(refusal("b", ""), "");
  ::setenv("FLYBALL_REGISTRATION_TOKEN_FILE", (folder_ / "none").c_str(), 1);
  EXPECT_THROW((void)default_registration_token(), SystemError);
}

}  // namespace
}  // namespace flyball
