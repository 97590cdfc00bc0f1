// The elastic jobs of include/flyball/flyball.h, on client/elastic_job.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "api/guarded.h"
#include "base/error.h"
#include "client/elastic_job.h"
#include "flyball/flyball.h"

struct flyball_elastic {
  explicit flyball_elastic(flyball::ElasticJob::Options options) : job(std::move(options)) {}

  flyball::ElasticJob job;
  std::string keeps;  // as the last report was answered
};

using flyball::guarded;

flyball_elastic* flyball_elastic_open(int gpus, void (*notice)(void* user, const char* words), void* user) {
  flyball_elastic* elastic = nullptr;
  guarded([&] {
    if (gpus < 0) throw flyball::UsageError("gpus: a job has no fewer than 0");
    auto options = flyball::ElasticJob::from_environment(gpus);
    options.notice = [notice, user](const std::string& words) {
      if (notice == nullptr) return fmt::print(stderr, "flyball: {}\n", words);
      notice(user, words.c_str());
    };
    elastic = std::make_unique<flyball_elastic>(std::move(options)).release();
  });
  return elastic;
}

int flyball_elastic_report(flyball_elastic* elastic, int64_t iteration, int64_t iterations, double step_s) {
  bool stop = false;
  if (elastic != nullptr) {
    guarded([&] {
      elastic->keeps.clear();
      stop = elastic->job.report(iteration, iterations, flyball::Seconds(step_s));
      elastic->keeps = fmt::format("{}", fmt::join(elastic->job.keeps(), ","));
    });
  }
  return stop ? 1 : 0;
}

const char* flyball_elastic_keeps(const flyball_elastic* elastic) {
  return elastic == nullptr ? "" : elastic->keeps.c_str();
}

int flyball_elastic_go_on(flyball_elastic* elastic, int gpus) {
  if (elastic == nullptr) return FLYBALL_OK;
  return guarded([&] {
    elastic->job.go_on(gpus);
    elastic->keeps.clear();
  });
}

void flyball_elastic_close(flyball_elastic* elastic) {
  guarded([&] { delete elastic; });
}
