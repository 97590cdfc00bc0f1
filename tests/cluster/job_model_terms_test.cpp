#include "cluster/job_model_terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cluster/job_model.h"

namespace flyball {
namespace {

double random_in(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

TimeParameters random_time(std::mt19937_64& random) {
  TimeParameters p{};
  for (double& value : p) value = random_in(random, 0.01, 0.6);
  p[kGamma1] = random_in(random, 1.0, 8.0);
  p[kGamma2] = random_in(random, 1.0, 8.0);
  return p;
}

TimePoint random_point(std::mt19937_64& random, int gpus) {
  return {random_in(random, 0.3, 3.0), std::min<double>(gpus, 4), static_cast<double>(gpus), gpus <= 4,
          random_in(random, 0.6, 1.6)};
}

// Central differences; the step's error is of its square.
template <class Parameters, class Function>
void expect_slopes(const Parameters& at, const double* slopes, Function function) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double step = 1e-5 * at[i];
    Parameters more = at;
    Parameters less = at;
    more[i] += step;
    less[i] -= step;
    const double difference = (function(more) - function(less)) / (2.0 * step);
    EXPECT_NEAR(slopes[i], difference, 1e-6 * std::max(1.0, std::abs(difference))) << "parameter " << i;
  }
}

TEST(JobModelTerms, TimeHasTheSlopesOfItsDifferences) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    for (const int gpus : {1, 2, 4, 16}) {
      const TimeParameters p = random_time(random);
      const TimePoint at = random_point(random, gpus);
      double slopes[kTimeParameters];
      const TimeTerms terms = time_terms(p.data(), at, slopes);
      EXPECT_EQ(terms.log_time, time_terms(p.data(), at, nullptr).log_time);
      expect_slopes(p, slopes, [&](const TimeParameters& q) { return time_terms(q.data(), at, nullptr).log_time; });
    }
  }
}

TEST(JobModelTerms, PowerHasTheSlopesOfItsDifferences) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    PowerParameters p{};
    for (double& value : p) value = random_in(random, 0.01, 0.6);
    p[kTheta] = random_in(random, 1.0, 30.0);
    const PowerConditions at{random_in(random, 1.0, 64.0), random_in(random, 0.6, 1.6), round % 2 == 0,
                             random_in(random, 0.1, 1.0), random_in(random, 0.0, 0.5)};
    double slopes[kPowerParameters];
    EXPECT_EQ(log_power(p.data(), at, slopes), log_power(p.data(), at, nullptr));
    expect_slopes(p, slopes, [&](const PowerParameters& q) { return log_power(q.data(), at, nullptr); });
  }
}

// What is fitted is what predicts.
TEST(JobModelTerms, AreTheModels) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    const TimeParameters p = random_time(random);
    ThroughputModel model;
    model.alpha_io = p[0];
    model.beta_io = p[1];
    model.alpha_grad = p[2];
    model.beta_grad = p[3];
    model.kappa_grad = p[4];
    model.local = {p[kLocalSync], p[kLocalSync + 1], p[kLocalSync + 2], p[kLocalSync + 3], p[kLocalSync + 4]};
    model.node = {p[kNodeSync], p[kNodeSync + 1], p[kNodeSync + 2], p[kNodeSync + 3], p[kNodeSync + 4]};
    model.gamma1 = p[kGamma1];
    model.gamma2 = p[kGamma2];
    PowerModel power;
    PowerParameters q{};
    for (double& value : q) value = random_in(random, 1.0, 60.0);
    for (std::size_t i = 0; i < 4; ++i) {
      power.grad[i] = q[i];
      power.sync[i] = q[kSyncPower + i];
    }
    power.theta = q[kTheta];
    power.beta = q[kBeta];
    power.static_power = q[kStaticPower];
    for (const int gpus : {1, 2, 4, 16}) {
      const double f = random_in(random, 0.6, 1.6);
      const JobConfiguration what{gpus, (gpus + 3) / 4, 32.0 * gpus, Megahertz(1000.0 * f)};
      const IterationCost predicted = JobModel(Megahertz(1000.0), model, power, power).predict(what);
      const TimeTerms terms = time_terms(
          p.data(), {what.local_batch(), what.gpus_per_node(), static_cast<double>(gpus), gpus <= 4, f}, nullptr);
      const double time = std::exp(terms.log_time);
      EXPECT_NEAR(time / predicted.time.value(), 1.0, 1e-9);
      const double watts = std::exp(
          log_power(q.data(), {what.local_batch(), f, f >= 1.0, terms.grad / time, terms.sync / time}, nullptr));
      EXPECT_NEAR(watts * gpus * time / predicted.energy.value(), 1.0, 1e-9);
    }
  }
}

}  // namespace
}  // namespace flyball
