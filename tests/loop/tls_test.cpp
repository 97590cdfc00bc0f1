// The training client and the planning server with TLS between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/session.h"
#include "loop/node.h"
#include "server/test_server.h"
#include "support/certificate.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_certificate;
using testing::Node;
using testing::ServerThread;
using testing::start_and_let_expire;
using testing::TempFolder;
using testing::wait_until;

constexpr auto kLongest = 120s;
constexpr const char* kNames = "DNS:localhost,IP:127.0.0.1";

std::unique_ptr<ServerThread> serve(const TlsFiles& files) {
  PlanningServerOptions options = testing::local_options();
  options.tls = files;
  return std::make_unique<ServerThread>(options);
}

std::string https(const ServerThread& server) { return "https://127.0.0.1:" + std::to_string(server.port()); }

// A rank on a GPU that nobody measures, and what its session tells.
class Rank {
 public:
  Rank(const std::string& server, const std::string& ca_file) {
    SessionOptions options;
    options.server = server;
    options.ca_file = ca_file;
    options.job = testing::small_job();
    options.profile = false;
    options.notice = [this](const std::string& words) {
      const std::scoped_lock lock(mutex_);
      notices_.push_back(words);
    };
    SessionGpu gpu;
    gpu.meter = {"GPU:0", [] { return MeterReading{std::nullopt, Joules(1)}; }};
    session_ = std::make_unique<Session>(options, std::move(gpu));
  }

  [[nodiscard]] bool joins() {
    return wait_until([&] { return session_->state().server_reachable; }, kLongest);
  }
  // The first notice; empty where none comes.
  [[nodiscard]] std::string notice() {
    std::string words;
    const auto told = [&] {
      const std::scoped_lock lock(mutex_);
      if (!notices_.empty()) words = notices_.front();
      return !words.empty();
    };
    (void)wait_until(told, kLongest);
    return words;
  }
  [[nodiscard]] Session& session() { return *session_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> notices_;
  std::unique_ptr<Session> session_;
};

TEST(SessionTls, TrustsTheAuthorityThatItIsGiven) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", kNames);
  const auto server = serve(files);
  Rank rank(https(*server), files.certificate);
  EXPECT_TRUE(rank.joins()) << rank.notice();
  // The job's token has come through: another one opens nothing.
  PlanServer stranger(https(*server), std::string(32, 'x'), Seconds(0), files.certificate);
  EXPECT_THROW((void)stranger.schedule("job", 0, 0, Seconds(0)), ServerRefusal);
  PlanServer owner(https(*server), testing::kToken, Seconds(0), files.certificate);
  EXPECT_EQ(owner.schedule("job", 0, 0, Seconds(0)), std::nullopt);
}

// What is wrong is told once, the training goes on, and nothing has been sent.
TEST(SessionTls, SaysWhyACertificateIsRefused) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", kNames);
  const TlsFiles stranger = make_certificate(folder.path(), "stranger", kNames);
  const auto server = serve(files);
  for (const std::string& authority : {std::string(), stranger.certificate}) {
    Rank rank(https(*server), authority);
    EXPECT_THAT(rank.notice(),
                AllOf(HasSubstr("training goes on"), HasSubstr(https(*server)), HasSubstr("certificate is refused"),
                      HasSubstr("name the file of its authority (ca_file")));
    rank.session().step_begin();
    rank.session().step_end();
    EXPECT_FALSE(rank.session().state().server_reachable);
  }
}

TEST(SessionTls, TakesNoCertificateThatHasExpired) {
  const TempFolder folder;
  const auto server = start_and_let_expire(folder.path(), kNames, serve);
  Rank rank(https(*server), folder / "expiring.pem");
  EXPECT_THAT(rank.notice(), AllOf(HasSubstr("training goes on"), HasSubstr("certificate has expired"),
                                   HasSubstr("renew it on the server")));
  EXPECT_FALSE(rank.session().state().server_reachable);
}

TEST(SessionTls, AnAuthorityThatCannotBeUsedIsToldAtOnce) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", kNames);
  expect_input_error([&] { Rank("https://127.0.0.1:4940", files.key); }, 0, 0, "holds no certificates");
  EXPECT_THROW(Rank("https://127.0.0.1:4940", folder / "nothing"), SystemError);
  EXPECT_THROW(Rank("127.0.0.1:4940", files.certificate), UsageError) << "the token would go out in the clear";
}

// The programs: server, agent, and a trainer that uses the C interface.
TEST(Loop, TrainsByPlanOverTls) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", kNames);
  Node node;
  node.server.end(SIGTERM);
  const std::size_t said = node.server.output().size();
  node.start_server({"--tls-cert", files.certificate, "--tls-key", files.key});
  std::string address;
  ASSERT_TRUE(wait_until(
      [&] {
        const std::string output = node.server.output().substr(said);
        const std::size_t begin = output.find("https://");
        const std::size_t end = output.find('\n', begin);
        if (begin == std::string::npos || end == std::string::npos) return false;
        address = output.substr(begin, end - begin);
        return true;
      },
      kLongest))
      << node.server.output();
  node.start_trainer({"--server", address, "--ca-file", files.certificate, "--steps", "4"});
  ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLongest));
  EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
  EXPECT_EQ(node.windows("planned"), 1) << node.trainer.output();
}

}  // namespace
}  // namespace flyball
