// An elastic job's reports, on a real HTTP server that plays the controller, or on none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "client/elastic_job.h"
#include "net/http_host.h"
#include "support/certificate.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Host;
using ::testing::IsEmpty;

class Controller {
 public:
  explicit Controller(const std::optional<TlsFiles>& tls = std::nullopt) : host_(router(), {}, tls) {}

  [[nodiscard]] std::string address() const { return host_.path(); }
  [[nodiscard]] std::uint16_t port() const { return host_.port(); }
  void answer(unsigned status, std::string body) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    body_ = std::move(body);
  }
  [[nodiscard]] std::vector<nlohmann::json> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  [[nodiscard]] std::vector<std::string> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    if (!held_) kept_.clear();  // a reply that goes unanswered is answered with 500
  }

 private:
  Router router() {
    Router router;
    router.add(testing::route("POST", "/v1/cluster/jobs/{job}/report",
                              AsyncHandler([this](const Request& request, const Reply& reply) {
                                const std::lock_guard lock(mutex_);
                                if (held_) {
                                  kept_.push_back(reply);
                                  return;
                                }
                                nlohmann::json report = nlohmann::json::parse(request.body);
                                report["job"] = request.parameters.at("job");
                                heard_.push_back(report);
                                tokens_.emplace_back(request.header("authorization").value_or("none"));
                                Response response = testing::text(body_);
                                response.status = status_;
                                reply.send(response);
                              })));
    return router;
  }

  std::mutex mutex_;
  unsigned status_ = 200;
  std::string body_ = R"({"stop": false})";
  std::vector<nlohmann::json> heard_;
  std::vector<std::string> tokens_;  // of each report
  bool held_ = false;
  std::vector<Reply> kept_;
  Host host_;
};

class ElasticJobTest : public ::testing::Test {
 protected:
  ElasticJob::Options options(const std::string& controller) {
    ElasticJob::Options options;
    options.controller = controller;
    options.job = "42";
    options.gpus = 8;
    options.patience = Seconds(20);
    options.interval = Seconds(0);
    options.retry = Seconds(0.01);
    options.notice = [this](const std::string& words) { notices_.push_back(words); };
    return options;
  }

  // Reports until the condition holds, which it has to within 20 s.
  template <class Condition>
  void report_until(ElasticJob& job, const Condition& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) {
      job.report(3, 100, Seconds(0.5));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(condition());
  }

  std::vector<std::string> notices_;
};

TEST_F(ElasticJobTest, ReportsAndIsTold) {
  Controller controller;
  ElasticJob job(options(controller.address()));
  EXPECT_TRUE(job.reports());
  EXPECT_FALSE(job.report(1, 100, Seconds(0.25)));
  controller.answer(200, R"({"stop": true, "why": "another field"})");
  EXPECT_TRUE(job.report(2, 100, Seconds(0.5)));
  const nlohmann::json first{{"iteration", 1}, {"iterations", 100}, {"step_s", 0.25}, {"gpus", 8}, {"job", "42"}};
  const nlohmann::json second{{"iteration", 2}, {"iterations", 100}, {"step_s", 0.5}, {"gpus", 8}, {"job", "42"}};
  EXPECT_THAT(controller.heard(), ElementsAre(first, second));
  EXPECT_THAT(notices_, IsEmpty());
}

// It is told which nodes it keeps, and says at once that it has gone on with them. What it was told before that, as a
// job of eight GPUs, is over: the next answer, which another report within the interval repeats, is to one of four.
TEST_F(ElasticJobTest, GoesOnWithFewerGpus) {
  Controller controller;
  controller.answer(200, R"({"stop": true, "keeps": ["n1", "n3"]})");
  auto how = options(controller.address());
  how.interval = Seconds(1000);
  ElasticJob job(how);
  EXPECT_TRUE(job.report(5, 100, Seconds(0.25)));
  EXPECT_THAT(job.keeps(), ElementsAre("n1", "n3"));
  EXPECT_TRUE(job.report(6, 100, Seconds(0.25)));  // by the answer before
  EXPECT_THAT(job.keeps(), ElementsAre("n1", "n3"));
  controller.answer(200, R"({"stop": false})");
  job.go_on(4);
  EXPECT_THAT(job.keeps(), IsEmpty());
  EXPECT_FALSE(job.report(7, 100, Seconds(0.5)));
  EXPECT_THROW(job.go_on(0), UsageError);
  const nlohmann::json first{{"iteration", 5}, {"iterations", 100}, {"step_s", 0.25}, {"gpus", 8}, {"job", "42"}};
  const nlohmann::json word{{"iteration", 6}, {"iterations", 100}, {"step_s", 0}, {"gpus", 4}, {"job", "42"}};
  EXPECT_THAT(controller.heard(), ElementsAre(first, word));
}

TEST_F(ElasticJobTest, SpeaksTcp) {
  Controller controller;
  controller.answer(200, R"({"stop": true})");
  ElasticJob job(options("http://127.0.0.1:" + std::to_string(controller.port())));
  EXPECT_TRUE(job.report(1, 100, Seconds(1)));
}

// Whoever reads along, or takes the port of a controller that is away, learns no token.
TEST_F(ElasticJobTest, ShowsItsTokenByTlsOnly) {
  const testing::TempFolder folder;
  const TlsFiles files = testing::make_certificate(folder / ".", "controller", "IP:127.0.0.1");
  Controller safe(files);
  Controller open;
  for (const std::string& address : {"https://127.0.0.1:" + std::to_string(safe.port()),
                                     "127.0.0.1:" + std::to_string(open.port()), open.address()}) {
    auto with_token = options(address);
    with_token.ca_file = files.certificate;
    with_token.token = "1000.abc";
    ElasticJob job(with_token);
    job.report(1, 100, Seconds(1));
  }
  EXPECT_THAT(safe.tokens(), ElementsAre("Bearer 1000.abc"));
  EXPECT_THAT(open.tokens(), ElementsAre("none", "none"));
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(ElasticJobTest, GoesOnWithoutTheFileOfAuthorities) {
  auto lost = options("https://127.0.0.1:1");
  lost.ca_file = "/nowhere/ca.pem";
  ElasticJob job(lost);
  EXPECT_FALSE(job.reports());
  for (int i = 1; i <= 2; ++i) EXPECT_FALSE(job.report(i, 100, Seconds(1)));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("/nowhere/ca.pem")));
}

TEST_F(ElasticJobTest, OfManyShortIterationsFewAreReportedButTheLast) {
  Controller controller;
  auto hourly = options(controller.address());
  hourly.interval = Seconds(3600);
  ElasticJob job(hourly);
  for (int i = 1; i <= 100; ++i) job.report(i, 100, Seconds(0.001));
  ASSERT_EQ(controller.heard().size(), 2u);
  EXPECT_EQ(controller.heard()[0]["iteration"], 1);
  EXPECT_EQ(controller.heard()[1]["iteration"], 100);
}

TEST_F(ElasticJobTest, WhatWasToldLastHoldsUntilTheNextReportIsSent) {
  Controller controller;
  controller.answer(200, R"({"stop": true})");
  auto hourly = options(controller.address());
  hourly.interval = Seconds(3600);
  ElasticJob job(hourly);
  EXPECT_TRUE(job.report(1, 100, Seconds(1)));
  EXPECT_TRUE(job.report(2, 100, Seconds(1)));
  EXPECT_EQ(controller.heard().size(), 1u);
}

TEST_F(ElasticJobTest, AControllerThatIsNotThereIsNamedOnce) {
  testing::TempFolder folder;
  ElasticJob job(options(folder / "nobody"));
  for (int i = 1; i <= 20; ++i) {
    EXPECT_FALSE(job.report(i, 100, Seconds(1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("is away; the training goes on"));
  EXPECT_THAT(notices_[0], HasSubstr("nobody"));
}

TEST_F(ElasticJobTest, WhatWasNotHeardIsReportedLater) {
  Controller controller;
  controller.answer(503, R"({"detail": "not yet"})");
  ElasticJob job(options(controller.address()));
  EXPECT_FALSE(job.report(7, 100, Seconds(1)));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("it answered 503: not yet"));
  controller.answer(200, R"({"stop": true})");
  // Without another report, since the job's next iteration may be long.
  const auto answered = [&] { return controller.heard().back()["iteration"] == 7 && controller.heard().size() >= 2; };
  for (int i = 0; i < 2000 && !answered(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(answered());
  bool stop = false;
  report_until(job, [&] { return stop = job.report(8, 100, Seconds(1)); });
  EXPECT_THAT(notices_.back(), HasSubstr("answers again"));
}

TEST_F(ElasticJobTest, AnAnswerThatIsLateHoldsNobodyUp) {
  Controller controller;
  controller.hold(true);
  auto impatient = options(controller.address());
  impatient.patience = Seconds(0.01);
  ElasticJob job(impatient);
  for (int i = 1; i <= 100; ++i) EXPECT_FALSE(job.report(i, 100, Seconds(1)));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("does not answer; the training goes on"));
  controller.hold(false);
  report_until(job, [&] { return !controller.heard().empty() && controller.heard().back()["iteration"] == 3; });
  report_until(job, [&] { return notices_.back().find("answers again") != std::string::npos; });
}

TEST_F(ElasticJobTest, AnswersThatMakeNoSenseAreNotObeyed) {
  for (const char* body : {"", "[]", "{}", R"({"stop": "yes"})", R"({"stop": null})"}) {
    Controller controller;
    controller.answer(200, body);
    notices_.clear();
    ElasticJob job(options(controller.address()));
    EXPECT_FALSE(job.report(1, 100, Seconds(1))) << body;
    EXPECT_EQ(notices_.size(), 1u) << body;
  }
}

TEST_F(ElasticJobTest, OutsideOfAClusterNothingIsReportedWhichIsSaidOnce) {
  auto nowhere = options("");
  ElasticJob job(nowhere);
  EXPECT_FALSE(job.reports());
  EXPECT_FALSE(job.report(1, 100, Seconds(1)));
  EXPECT_FALSE(job.report(2, 100, Seconds(1)));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("FLYBALL_CLUSTER is not set")));
  notices_.clear();
  nowhere.job.clear();
  ElasticJob no_job(nowhere);
  EXPECT_FALSE(no_job.report(1, 100, Seconds(1)));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("SLURM_JOB_ID is not set")));
}

TEST_F(ElasticJobTest, RefusesWhatIsNoReport) {
  ElasticJob job(options(""));
  EXPECT_THROW(job.report(-1, 100, Seconds(1)), UsageError);
  EXPECT_THROW(job.report(1, -1, Seconds(1)), UsageError);
  EXPECT_THROW(job.report(1, 100, Seconds(-1)), UsageError);
  EXPECT_THROW(job.report(1, 100, Seconds(std::numeric_limits<double>::quiet_NaN())), UsageError);
  EXPECT_THROW(ElasticJob(options("no address")), UsageError);
}

TEST_F(ElasticJobTest, SlurmTellsJobAndGpus) {
  setenv("FLYBALL_CLUSTER", "unix:/x", 1);
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("SLURM_JOB_NUM_NODES", "3", 1);
  setenv("SLURM_GPUS_ON_NODE", "4", 1);
  const auto found = ElasticJob::from_environment();
  const auto given = ElasticJob::from_environment(5);
  for (const char* name : {"FLYBALL_CLUSTER", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE"})
    unsetenv(name);
  EXPECT_EQ(found.controller, "unix:/x");
  EXPECT_EQ(found.job, "7");
  EXPECT_EQ(found.gpus, 12);  // 3 nodes of 4
  EXPECT_EQ(given.gpus, 5);
  EXPECT_EQ(ElasticJob::from_environment().job, "");
}

}  // namespace
}  // namespace flyball
