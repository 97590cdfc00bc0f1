// The whole way from a simulated board through the vendor's interface and the sampler, against the board's true energy;
// and what becomes of it under every fault that a board can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "driver/gpu_vendors.h"
#include "flyball/sim.h"
#include "measure/meters.h"
#include "measure/sampler.h"
#include "sim/simulated.h"
#include "support/expect_fault.h"
#include "support/figures.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

const GpuVendor kVendor{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml};

// Keeps a board at work without a gap: two pieces of different lengths share it, so that one is there while the other's
// thread waits for a processor.
class Load {
 public:
  explicit Load(unsigned gpu) : first_(worker(gpu, 0.10)), second_(worker(gpu, 0.13)) {}
  ~Load() {
    stop_ = true;
    first_.join();
    second_.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::thread worker(unsigned gpu, double seconds) {
    return std::thread([this, gpu, seconds] {
      while (!stop_) flyball_sim_work(gpu, "forward", seconds, nullptr);
    });
  }

  std::atomic<bool> stop_ = false;
  std::thread first_;
  std::thread second_;
};

struct Truth {
  Nanoseconds time = 0;  // of the sampler's clock
  double joules = 0.0;
};

class SampledEnergy : public ::testing::Test {
 protected:
  void begin(const std::string& model, std::size_t gpus = 1, Sampler::Options options = {},
             const char* words = nullptr) {
    machine_.emplace(model, gpus, 1.0);
    if (words != nullptr) fault(words);
    library_ = open_gpus({kVendor});
    std::vector<Meter> meters;
    for (const auto& gpu : library_.gpus) meters.push_back(meter_of(gpu));
    sampler_.emplace(std::move(meters), options);
  }
  void TearDown() override {
    sampler_.reset();
    library_ = {};
  }

  [[nodiscard]] Truth truth(unsigned gpu = 0) const {
    double joules = 0.0;
    double time = 0.0;
    EXPECT_EQ(flyball_sim_true_energy(gpu, &joules, &time), FLYBALL_SIM_OK);
    return {(*machine_)->wall_time_of(to_nanoseconds(Seconds(time))), joules};
  }

  // The sensor has shown everything up to now, and the window after this one begins on a known footing.
  Truth settled_truth(unsigned gpu = 0) {
    EXPECT_TRUE(sampler_->settle(Sampler::now(), Seconds(60)));
    return truth(gpu);
  }

  static void pass(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
  void fault(const char* words, unsigned gpu = 0) const { ASSERT_EQ(flyball_sim_fault(gpu, words), FLYBALL_SIM_OK); }

  IntervalEnergy measured(const Truth& from, const Truth& to, std::size_t meter = 0) {
    EXPECT_TRUE(sampler_->settle(to.time, Seconds(60)));
    return sampler_->energy_between(meter, from.time, to.time);
  }

  std::optional<SimulatedMachine> machine_;
  OpenedGpus library_;
  std::optional<Sampler> sampler_;
};

class OfEveryModel : public SampledEnergy, public ::testing::WithParamInterface<const char*> {};

TEST_P(OfEveryModel, IsTrueToOnePercentForWindowsFrom100Milliseconds) {
  begin(GetParam());
  const Load load(0);
  pass(2.5);  // a steady rhythm is known after some thirteen changes of the sensor
  std::vector<Truth> truths{settled_truth()};
  for (const double length : {0.1, 0.1, 0.1, 0.15, 0.2, 0.3, 0.5}) {
    pass(length);
    truths.push_back(truth());
  }
  ASSERT_TRUE(sampler_->settle(truths.back().time, Seconds(60)));
  // Where other tests hold the sampler's thread up at a window's end, that window is off.
  std::size_t off = 0;
  for (std::size_t i = 1; i < truths.size(); ++i) {
    const double expected = truths[i].joules - truths[i - 1].joules;
    const IntervalEnergy window = measured(truths[i - 1], truths[i]);
    EXPECT_NEAR(window.energy.value(), expected, tolerance(0.05) * expected)
        << to_seconds(truths[i].time - truths[i - 1].time).value() << " s";
    if (std::abs(window.energy.value() - expected) > tolerance(0.01) * expected) ++off;
    EXPECT_EQ(window.source, EnergySource::kCounter);
    EXPECT_TRUE(window.complete);
  }
  EXPECT_LE(off, 1u) << "of seven windows are beyond 1 %";
}

TEST_P(OfEveryModel, SeparatesABurstFromTheIdlingAroundIt) {
  begin(GetParam());
  pass(0.3);
  const Truth before = settled_truth();
  ASSERT_EQ(flyball_sim_work(0, "forward", 0.4, nullptr), FLYBALL_SIM_OK);
  const Truth after = truth();
  pass(0.3);
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(measured(before, after).energy.value(), expected, tolerance(0.02) * expected);
}

// As a real H100's: a reading of the counter takes 2.5 ms, so that there are two or three a second, and the driver's
// record tells what happens between them.
TEST_F(SampledEnergy, TellsBurstsThatACounterTooDearToReadOftenDoesNot) {
  Sampler::Options options;
  options.most_cost = 0.0112;
  begin("h100-sxm", 1, options, "counter-costs=0.0025");
  ASSERT_TRUE(wait_until([&] { return sampler_->state(0).reading_period > Seconds(0.15); }));
  double measured_joules = 0.0;
  double expected = 0.0;
  for (int i = 0; i < 8; ++i) {
    const Truth before = truth();
    ASSERT_EQ(flyball_sim_work(0, "forward", 0.1, nullptr), FLYBALL_SIM_OK);
    const Truth after = truth();
    pass(0.137);
    const IntervalEnergy window = measured(before, after);
    EXPECT_TRUE(window.complete);
    measured_joules += window.energy.value();
    expected += after.joules - before.joules;
  }
  // Evenly over steps of 240 ms it would be half of it. A busy machine dates the counter's changes some milliseconds
  // wrongly, and at each end of a burst an error of 10 ms is a tenth of it.
  EXPECT_NEAR(measured_joules, expected, tolerance(0.25) * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, OfEveryModel,
                         ::testing::Values("v100", "a100-pcie", "a100-sxm", "a40", "h100-sxm", "h200-sxm", "b200",
                                           "gb200", "rtx3090"));

TEST_F(SampledEnergy, FindsTheSensorsPeriod) {
  begin("v100");
  const Load load(0);
  ASSERT_TRUE(wait_until([&] { return std::abs(sampler_->state(0).sensor_period.value() - 0.020) < 0.001; }))
      << sampler_->state(0).sensor_period.value();
}

TEST_F(SampledEnergy, IntegratesPowerWhereTheCounterIsMissing) {
  begin("v100");
  fault("counter-missing");
  const Load load(0);
  pass(0.5);
  const Truth before = truth();
  pass(1.0);
  const Truth after = truth();
  const IntervalEnergy window = measured(before, after);
  EXPECT_EQ(window.source, EnergySource::kIntegratedPower);
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(window.energy.value(), expected, tolerance(0.02) * expected);
}

TEST_F(SampledEnergy, BridgesAFrozenCounterWithPowerAndSaysSo) {
  begin("v100");
  const Load load(0);
  const Truth before = settled_truth();
  fault("counter-frozen");
  ASSERT_TRUE(wait_until([&] { return sampler_->state(0).source == EnergySource::kFrozenCounter; }));
  const Truth frozen = truth();
  const IntervalEnergy across = measured(before, frozen);
  EXPECT_EQ(across.source, EnergySource::kFrozenCounter);
  const double bridged = frozen.joules - before.joules;
  EXPECT_NEAR(across.energy.value(), bridged, tolerance(0.03) * bridged);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  ASSERT_TRUE(wait_until([&] { return sampler_->state(0).source == EnergySource::kCounter; }));
  pass(0.3);
  const Truth thawed = settled_truth();
  pass(0.3);
  const Truth after = truth();
  EXPECT_EQ(measured(thawed, after).source, EnergySource::kCounter);
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(measured(before, after).energy.value(), expected, tolerance(0.03) * expected);
}

TEST_F(SampledEnergy, LosesNothingWhenTheCounterWraps) {
  begin("v100");
  fault("counter-wraps=40000");  // 40 J: many times a second of work
  const Load load(0);
  pass(0.3);
  const Truth before = settled_truth();
  pass(2.0);
  const Truth after = truth();
  const double expected = after.joules - before.joules;
  ASSERT_GT(expected, 160.0);
  EXPECT_NEAR(measured(before, after).energy.value(), expected, tolerance(0.03) * expected);
}

TEST_F(SampledEnergy, SurvivesACounterThatBeginsAnew) {
  begin("v100");
  const Load load(0);
  pass(0.3);
  const Truth before = settled_truth();
  pass(0.3);
  fault("counter-reset");
  pass(0.7);
  const Truth after = truth();
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(measured(before, after).energy.value(), expected, tolerance(0.05) * expected);
}

TEST_F(SampledEnergy, TellsALostBoardAndGoesOnWithTheOthers) {
  begin("v100", 2);
  pass(0.2);
  fault("lost", 0);
  ASSERT_TRUE(wait_until([&] { return sampler_->state(0).failed > 0; }));
  EXPECT_THAT(sampler_->state(0).failure, HasSubstr("GPU:0: device lost"));
  const Truth before = settled_truth(1);
  pass(0.3);
  const Truth after = truth(1);
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(measured(before, after, 1).energy.value(), expected, tolerance(0.02) * expected);
  EXPECT_EQ(sampler_->state(1).failed, 0u);
}

TEST_F(SampledEnergy, GoesOnWithTheOthersWhenACallHangs) {
  begin("v100", 2);
  fault("hang:nvmlDeviceGetTotalEnergyConsumption=600", 0);
  ASSERT_TRUE(wait_until([&] { return !sampler_->state(0).answering; }));
  const Truth before = settled_truth(1);
  pass(0.3);
  const Truth after = truth(1);
  const double expected = after.joules - before.joules;
  EXPECT_NEAR(measured(before, after, 1).energy.value(), expected, tolerance(0.02) * expected);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  EXPECT_TRUE(wait_until([&] { return sampler_->state(0).answering; }));
}

class SimulatedBoard : public ::testing::Test {
 protected:
  SimulatedMachine machine_{"a100-sxm", 2};  // time stands still
  OpenedGpus library_ = open_gpus({kVendor});
  GpuDevice& gpu_ = *library_.gpus.at(0);
};

TEST_F(SimulatedBoard, IsReadAndThrottledThroughTheVendorsInterface) {
  EXPECT_THAT(gpu_.identity().name, HasSubstr("A100"));
  EXPECT_NEAR(gpu_.power().value(), 60.0, 0.05);
  EXPECT_EQ(gpu_.sm_clocks().front(), Megahertz(1410));
  EXPECT_EQ(gpu_.sm_clocks().back(), Megahertz(210));
  EXPECT_EQ(gpu_.power_limits().standard, Watts(400));
  gpu_.set_power_limit(Watts(250));
  flyball_sim_add_time(1.0);
  EXPECT_EQ(gpu_.power_limit(), Watts(250));
  gpu_.set_persistence(true);
  EXPECT_TRUE(gpu_.persistence());
  EXPECT_TRUE(gpu_.throttle_access().allowed || ::geteuid() != 0);
  gpu_.lock_sm_clocks({Megahertz(900), Megahertz(900)});
  flyball_sim_add_time(1.0);
  EXPECT_EQ(machine_.state().applied.lock_maximum, Megahertz(900));
  gpu_.reset_sm_clocks();
  flyball_sim_add_time(1.0);
  EXPECT_EQ(machine_.state().applied.lock_maximum, Megahertz(0));
}

TEST_F(SimulatedBoard, TellsPermissionFromLossAndFromOtherErrors) {
  ::unsetenv("FLYBALL_SIM_PRIVILEGED");
  ASSERT_EQ(flyball_sim_fault(0, "unprivileged"), FLYBALL_SIM_OK);
  expect_fault(
      [&] {
        gpu_.lock_sm_clocks({Megahertz(900), Megahertz(900)});
      },
      DeviceFault::kPermission, "GPU:0", "sudo flyball agent");
  const ThrottleAccess access = gpu_.throttle_access();
  EXPECT_FALSE(access.allowed);
  EXPECT_EQ(access.why, DeviceFault::kPermission);
  ASSERT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  ASSERT_EQ(flyball_sim_fault(0, "error:nvmlDeviceGetTemperature=999"), FLYBALL_SIM_OK);
  expect_fault([&] { return gpu_.temperature_celsius(); }, DeviceFault::kDriver, "GPU:0", "reading the temperature");
  EXPECT_NEAR(gpu_.power().value(), 60.0, 0.05) << "one call that fails leaves the others alone";
  ASSERT_EQ(flyball_sim_fault(0, "lost"), FLYBALL_SIM_OK);
  expect_fault([&] { return gpu_.total_energy(); }, DeviceFault::kLost, "GPU:0", "nvidia-smi --gpu-reset");
  expect_fault([&] { gpu_.reset_sm_clocks(); }, DeviceFault::kLost, "GPU:0", "resetting the SM clock");
  EXPECT_NEAR(library_.gpus[1]->power().value(), 60.0, 0.05);
}

TEST_F(SimulatedBoard, IsNotThrottledWhereMigDividesIt) {
  EXPECT_FALSE(gpu_.divided());
  ASSERT_EQ(flyball_sim_fault(0, "mig"), FLYBALL_SIM_OK);
  EXPECT_TRUE(gpu_.divided());
  EXPECT_FALSE(library_.gpus[1]->divided());
  expect_fault([&] { gpu_.refuse_divided(); }, DeviceFault::kUnsupported, "GPU:0", "for all of its instances");
  const ThrottleAccess access = gpu_.throttle_access();
  EXPECT_FALSE(access.allowed);
  EXPECT_EQ(access.why, DeviceFault::kUnsupported);
  EXPECT_THAT(access.mend, HasSubstr("-mig 0"));
  EXPECT_NEAR(gpu_.power().value(), 60.0, 0.05);
}

TEST_F(SimulatedBoard, IsListedAsRefusedWhereItIsLost) {
  ASSERT_EQ(flyball_sim_fault(0, "lost"), FLYBALL_SIM_OK);
  const OpenedGpus library = open_gpus({kVendor});
  ASSERT_EQ(library.gpus.size() + library.refused.size(), 2u);
  EXPECT_EQ(library.gpus.back()->label(), "GPU:1");
}

}  // namespace
}  // namespace flyball::testing
