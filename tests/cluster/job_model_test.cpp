#include "cluster/job_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/measurements.h"
#include "cluster/outside_error.h"
#include "cluster/random.h"
#include "profile/embedded_data.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

constexpr Megahertz kBreak(1000.0);

ThroughputModel simple_throughput() {
  ThroughputModel model;
  model.alpha_io = 0.1;
  model.beta_io = 0.01;
  model.alpha_grad = 0.2;
  model.beta_grad = 0.01;
  model.kappa_grad = 0.02;
  model.local = {0.1, 0.02, 0.01, 0.3};
  model.node = {0.2, 0.04, 0.02, 0.6};
  return model;
}

// gamma = 1: the sum of the parts. BS 16 on two GPUs of one node at 2000 MHz (f = 2): bs = 8, r = 2:
//   T_IO = 0.1 + 0.01 * 8 * 2 = 0.26; T_grad = 0.2 + (0.01 + 0.02 / 2) * 8 = 0.36; T_sync = 0.1 / 2 + 0.3 = 0.35.
TEST(JobModel, TimesAddUpWithoutOverlap) {
  const JobModel model(kBreak, simple_throughput(), {}, {});
  EXPECT_NEAR(model.iteration_time({2, 1, 16.0, Megahertz(2000)}).value(), 0.97, 1e-12);
  // Four GPUs on two nodes at f = 1: bs = 4, r = 2: 0.18 + (0.2 + 0.03 * 4) + (0.2 + 0.06 * 2 + 0.6) = 1.42.
  EXPECT_NEAR(model.iteration_time({4, 2, 16.0, kBreak}).value(), 1.42, 1e-12);
  // One GPU: nothing to synchronise: 0.1 + 0.16 + 0.2 + 0.03 * 16 = 0.94.
  EXPECT_NEAR(model.iteration_time({1, 1, 16.0, kBreak}).value(), 0.94, 1e-12);
}

// gamma -> infinity: the longest part alone (eq. 5 with the exponent 1 / gamma_2).
TEST(JobModel, TimesHideBehindTheLongestWithFullOverlap) {
  ThroughputModel throughput = simple_throughput();
  throughput.gamma1 = throughput.gamma2 = 200.0;
  const JobModel model(kBreak, throughput, {}, {});
  EXPECT_NEAR(model.iteration_time({4, 2, 16.0, kBreak}).value(), 0.92, 1e-3);
}

// Eqs. 6-15 above f0: one GPU, bs = e^2 - 1 (so that log(bs + 1) = 2), f = 2, T_grad = 1 s, T_iter = 1 s:
//   kappa = 1 + 2 * 2 + 3 * 4 + 4 * 8 = 49 W; P_grad = 49 * (2 + 0.5); P_static = 10 * 2; together 142.5 J.
// Below f0 at f = 0.5: kappa = 3 + 4 * 0.5 = 5; P_grad = 5 * 2; P_static = 7; together 17 J.
TEST(JobModel, EnergyIsPowerTimesTime) {
  ThroughputModel throughput;
  throughput.alpha_grad = 1.0;
  PowerModel high;
  high.grad[0] = 1.0;
  high.grad[1] = 2.0;
  high.grad[2] = 3.0;
  high.grad[3] = 4.0;
  high.beta = 0.5;
  high.static_power = 10.0;
  PowerModel low;
  low.grad[0] = 3.0;
  low.grad[1] = 4.0;
  low.static_power = 7.0;
  const JobModel model(kBreak, throughput, low, high);
  const double batch = std::exp(2.0) - 1.0;
  EXPECT_NEAR(model.predict({1, 1, batch, Megahertz(2000)}).energy.value(), 142.5, 1e-9);
  EXPECT_NEAR(model.predict({1, 1, batch, Megahertz(500)}).energy.value(), 17.0, 1e-9);
  // Twice the GPUs with the same local batch: twice the energy, as nothing is synchronised.
  EXPECT_NEAR(model.predict({2, 1, 2.0 * batch, Megahertz(500)}).energy.value(), 34.0, 1e-9);
}

// Points made by a model are fitted by it.
TEST(JobModelFit, FindsAModelOfItsOwnForm) {
  ThroughputModel throughput = simple_throughput();
  throughput.gamma1 = 2.0;
  throughput.gamma2 = 1.5;
  PowerModel power;
  power.grad[1] = 20.0;
  power.grad[3] = 20.0;
  power.beta = 1.0;
  power.sync[1] = 30.0;
  power.static_power = 40.0;
  PowerModel below = power;
  below.grad[1] = 40.0;
  below.grad[3] = 0.0;
  const JobModel real(kBreak, throughput, below, power);
  std::vector<JobMeasurement> points;
  for (const int gpus : {1, 2, 4, 8, 16}) {
    for (const double batch : {16.0, 64.0, 256.0}) {
      for (const double clock : {600.0, 800.0, 1000.0, 1200.0, 1500.0}) {
        const JobConfiguration configuration{gpus, gpus > 4 ? gpus / 4 : 1, batch, Megahertz(clock)};
        points.push_back({configuration, real.predict(configuration)});
      }
    }
  }
  const JobModel fitted = fit_job_model(points, kBreak);
  const ModelError error = model_error(fitted, points);
  EXPECT_LT(error.time, 0.01);
  EXPECT_LT(error.energy, 0.01);
  // Further points at the truth change nothing for the worse.
  points.push_back({{32, 8, 256.0, Megahertz(1200)}, real.predict({32, 8, 256.0, Megahertz(1200)})});
  const JobModel again = fit_job_model(points, kBreak, &fitted);
  EXPECT_LT(model_error(again, points).time, 0.01);
}

// Seen above f0 only, power below falls in proportion to the clock, and meets it at f0.
TEST(JobModelFit, ContinuesAcrossTheVoltageBreak) {
  std::vector<JobMeasurement> points;
  for (const double batch : {8.0, 32.0}) {
    for (const double clock : {1000.0, 1200.0, 1400.0}) {
      const double f = clock / 1000.0;
      const Seconds time(batch / f);
      points.push_back({{1, 1, batch, Megahertz(clock)}, {time, Watts(60.0 * f + 40.0 * f * f * f) * time}});
    }
  }
  const JobModel model = fit_job_model(points, kBreak);
  const double at = model.predict({1, 1, 32.0, Megahertz(1000.0)}).power().value();
  const double under = model.predict({1, 1, 32.0, Megahertz(999.99)}).power().value();
  EXPECT_NEAR(under / at, 1.0, 1e-3);
  EXPECT_LT(model.predict({1, 1, 32.0, Megahertz(600.0)}).power().value(), at);
}

TEST(JobModelFit, RefusesNothing) { EXPECT_THROW((void)fit_job_model({}, kBreak), Error); }

// PowerFlow table 2: a tenth of the rows is held out. The paper's errors are 2.1 to 6.1 % (time) and 3.5 to 6.9 %.
TEST(JobModelFit, PredictsWhatItHasNotSeen) {
  for (const auto& [file, f0] : {std::pair("cluster/v100.csv", 1020.0), std::pair("cluster/a100-pcie.csv", 1005.0)}) {
    double time = 0.0;
    double energy = 0.0;
    int models = 0;
    for (const auto& [name, rows] : read_measurements(file, embedded_file(file), Megahertz(f0))) {
      Random random(1);
      std::vector<JobMeasurement> fitted;
      std::vector<JobMeasurement> held;
      for (const JobMeasurement& row : rows) (random.uniform() < 0.1 ? held : fitted).push_back(row);
      const ModelError error = model_error(fit_job_model(fitted, Megahertz(f0)), held);
      EXPECT_LT(error.time, 0.08) << file << " " << name;
      EXPECT_LT(error.energy, 0.08) << file << " " << name;
      time += error.time;
      energy += error.energy;
      ++models;
    }
    EXPECT_EQ(models, 5);
    EXPECT_LT(time / models, 0.07) << file;
    EXPECT_LT(energy / models, 0.07) << file;
  }
}

// One GPU takes 8 s, two take 4 s of half the batch each: a model that has seen only one GPU knows the computation's
// part of that, and no synchronisation. Where two take 8 s (nothing gained), the same prediction of some 4 s is off by
// a half.
TEST(OutsideError, HoldsWhatWasPredictedAgainstWhatWasMeasured) {
  const auto error = [](double two_gpus) {
    std::vector<JobMeasurement> rows;
    for (const double batch : {8.0, 16.0, 32.0, 64.0}) {
      rows.push_back({{1, 1, batch, kBreak}, {Seconds(batch), Joules(0.0)}});
    }
    rows.push_back({{2, 1, 64.0, kBreak}, {Seconds(two_gpus), Joules(0.0)}});
    return outside_error(rows, kBreak);
  };
  const OutsideError good = error(32.0);
  EXPECT_EQ(good.steps[0].count, 1);
  EXPECT_LT(good.steps[0].error, 0.15);
  EXPECT_EQ(good.steps[1].count + good.steps[2].count, 0);
  EXPECT_TRUE(std::isnan(good.steps[1].error));
  const double predicted = 32.0 * (1.0 + good.steps[0].error);
  EXPECT_NEAR(error(64.0).steps[0].error, 1.0 - predicted / 64.0, 1e-9);
}

// On the real step times of the Pollux and Sia artifacts, where they lie at hand: within a node predictions for twice
// the GPUs are off by up to a third, from one node of T4s to two by a third and more. A scheduler that trusts them is
// wrong (kUnsure).
TEST(OutsideError, IsLargeOnRealStepTimes) {
  const std::optional<std::filesystem::path> data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  int files = 0;
  for (const std::string model : {"bert", "cifar10", "deepspeech2", "imagenet", "yolov3"}) {
    for (const std::string gpu : {"aws", "dgx-ext"}) {
      const std::filesystem::path path = *data / "throughput" / fmt::format("{}-{}-placements.csv", model, gpu);
      const OutsideError error =
          outside_error(read_measurements_file(path, Megahertz(1530.0)).begin()->second, Megahertz(1020.0));
      EXPECT_GT(error.steps[0].count, 0) << path;
      EXPECT_LT(error.steps[0].error, 0.40) << path;
      if (gpu == "aws") EXPECT_GT(error.steps[1].error, 0.30) << path;
      ++files;
    }
  }
  EXPECT_EQ(files, 10);
}

}  // namespace
}  // namespace flyball
