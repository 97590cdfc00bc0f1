// The C interface's elastic jobs, in a program that loads the library; the controller is a real HTTP server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "flyball/flyball.h"
#include "loop/library.h"
#include "net/http_host.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ElasticLibrary : public Library {
 public:
  ElasticLibrary() {
    find(open, "flyball_elastic_open");
    find(report, "flyball_elastic_report");
    find(keeps, "flyball_elastic_keeps");
    find(go_on, "flyball_elastic_go_on");
    find(close, "flyball_elastic_close");
  }

  decltype(&flyball_elastic_open) open;
  decltype(&flyball_elastic_report) report;
  decltype(&flyball_elastic_keeps) keeps;
  decltype(&flyball_elastic_go_on) go_on;
  decltype(&flyball_elastic_close) close;
};

class CElastic : public ::testing::Test {
 protected:
  ~CElastic() override {
    unsetenv("FLYBALL_CLUSTER");
    unsetenv("SLURM_JOB_ID");
  }

  static void note(void* user, const char* words) { static_cast<CElastic*>(user)->notices_.emplace_back(words); }

  ElasticLibrary library_;
  std::vector<std::string> notices_;
};

TEST_F(CElastic, ReportsAndIsTold) {
  std::mutex mutex;
  std::vector<nlohmann::json> heard;
  Router router;
  router.add(route("POST", "/v1/cluster/jobs/{job}/report", Handler([&](const Request& request) {
                     const std::lock_guard lock(mutex);
                     heard.push_back(nlohmann::json::parse(request.body));
                     heard.back()["job"] = request.parameters.at("job");
                     return text(heard.back()["gpus"] == 4 ? R"({"stop": true, "keeps": ["n1", "n2"]})"
                                                           : R"({"stop": false})");
                   })));
  Host host(std::move(router));
  setenv("FLYBALL_CLUSTER", ("unix:" + host.path()).c_str(), 1);
  setenv("SLURM_JOB_ID", "12", 1);
  flyball_elastic* elastic = library_.open(4, note, this);
  ASSERT_NE(elastic, nullptr) << library_.last_error();
  // If the machine is busy, an answer may be later than a call has patience for; a later call returns it.
  int stop = 0;
  for (int i = 0; i < 600 && stop == 0; ++i) {
    stop = library_.report(elastic, 10, 10, 0.5);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(stop, 1);
  EXPECT_STREQ(library_.keeps(elastic), "n1,n2");
  EXPECT_NE(library_.go_on(elastic, 0), FLYBALL_OK);
  EXPECT_EQ(library_.go_on(elastic, 2), FLYBALL_OK);
  EXPECT_STREQ(library_.keeps(elastic), "");
  library_.close(elastic);
  const nlohmann::json expected{{"iteration", 10}, {"iterations", 10}, {"step_s", 0.5}, {"gpus", 4}, {"job", "12"}};
  const std::lock_guard lock(mutex);
  ASSERT_FALSE(heard.empty());
  EXPECT_EQ(heard[0], expected);
  EXPECT_EQ(heard.back()["gpus"], 2);
}

TEST_F(CElastic, OutsideOfSlurmNothingIsReportedWhichIsSaidOnce) {
  flyball_elastic* elastic = library_.open(0, note, this);
  ASSERT_NE(elastic, nullptr);
  EXPECT_EQ(library_.report(elastic, 1, 10, 0.5), 0);
  EXPECT_EQ(library_.report(elastic, 2, 10, 0.5), 0);
  library_.close(elastic);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("SLURM_JOB_ID is not set")));
}

TEST_F(CElastic, RefusesWhatIsNoJobAndNoReport) {
  EXPECT_EQ(library_.open(-1, note, this), nullptr);
  EXPECT_THAT(library_.last_error(), HasSubstr("gpus"));
  flyball_elastic* elastic = library_.open(0, note, this);
  EXPECT_EQ(library_.report(elastic, -1, 10, 0.5), 0);
  EXPECT_THAT(library_.last_error(), HasSubstr("below 0"));
  library_.close(elastic);
  EXPECT_THAT(notices_, IsEmpty());
  setenv("FLYBALL_CLUSTER", "no address", 1);
  setenv("SLURM_JOB_ID", "12", 1);
  EXPECT_EQ(library_.open(0, note, this), nullptr);
}

TEST_F(CElastic, NullDoesNothing) {
  EXPECT_EQ(library_.report(nullptr, 1, 10, 0.5), 0);
  EXPECT_STREQ(library_.keeps(nullptr), "");
  EXPECT_EQ(library_.go_on(nullptr, 1), FLYBALL_OK);
  library_.close(nullptr);
}

}  // namespace
}  // namespace flyball::testing
