// The physics of a board against closed forms.
#include "sim/board.h"

#include <gtest/gtest.h>

#include <cmath>

#include "profile/gpu_model.h"
#include "sim/specification.h"

namespace flyball {
namespace {

BoardSpec board_of(const std::string& gpu) {
  MachineRequest request;
  request.gpu = gpu;
  request.gpus = 1;
  return specify_machine(request).boards[0];
}

// A board and its state, moved by hand; its sensors do not jitter.
struct Bench {
  BoardSpec spec;
  BoardState state;

  explicit Bench(const std::string& gpu = "a100") : spec(board_of(gpu)), state(switched_on(spec)) {
    spec.sensor_jitter = Watts(0);
  }

  void to(Nanoseconds t) { advance(spec, state, t); }
  std::size_t start(const Activity& activity, double seconds) {
    const int slot = start_work(spec, state, 0, activity, Seconds(seconds));
    EXPECT_GE(slot, 0);
    return static_cast<std::size_t>(slot);
  }
  void lock(double mhz) {
    state.applied.lock_minimum = state.applied.lock_maximum = state.requested.lock_minimum =
        state.requested.lock_maximum = Megahertz(mhz);
  }
  // Asks for a lock as the driver does: it holds after the switch latency.
  void ask_lock(double mhz) {
    state.requested.lock_minimum = state.requested.lock_maximum = Megahertz(mhz);
    state.effective_at = state.now + spec.switch_latency;
  }
  [[nodiscard]] double joules() const { return state.joules.value(); }
  [[nodiscard]] const SimWork& work(std::size_t slot) const { return state.works[slot]; }
  [[nodiscard]] double watts(const SensorSpec& sensor) const { return reading_of(spec, state, sensor).value(); }
};

// At half the highest clock, a quarter of what waiting adds to idle power.
TEST(Board, WaitsForLessAtALowerClock) {
  BoardSpec spec{};
  spec.maximum = Megahertz(1400);
  spec.idle = Watts(40);
  spec.waiting = Watts(140);
  EXPECT_EQ(waiting_power(spec, Megahertz(1400)), Watts(140));
  EXPECT_EQ(waiting_power(spec, Megahertz(700)), Watts(65));
}

// Work begins at 3 s: from there the record goes from idle power to the work's as exp(-t / 15 ms) goes to nothing. 120
// samples of 20 ms reach back to 2.38 s before the last.
TEST(Board, RecordsPowerThroughALowPass) {
  Bench bench("h100-sxm");
  bench.to(3 * kSecond);
  bench.start(bench.spec.forward, 10.0);
  bench.to(4 * kSecond);
  const double idle = bench.spec.idle.value();
  const double full = activity_of(bench.spec, bench.state).power.value();
  const std::vector<SimPowerSample> record = power_samples_of(bench.spec, bench.state);
  ASSERT_EQ(record.size(), 120u);
  EXPECT_EQ(record.back().time - record.front().time, Nanoseconds{119} * 20 * kMillisecond);
  EXPECT_LE(4 * kSecond - record.back().time, 20 * kMillisecond);
  for (const SimPowerSample& sample : record) {
    const double since_s = to_seconds(std::max<Nanoseconds>(0, sample.time - 3 * kSecond)).value();
    EXPECT_NEAR(sample.power.value(), full + (idle - full) * std::exp(-since_s / 0.015), 0.01) << sample.time;
  }
}

TEST(Board, WorkTakesTheTimeAndEnergyOfTheProfilesModelAtEveryClock) {
  for (const std::string& gpu : gpu_models()) {
    SCOPED_TRACE(gpu);
    const GpuModel model = load_gpu_model(gpu);
    for (const Activity& activity : {model.forward, model.backward}) {
      for (const Megahertz clock : model.clocks()) {
        Bench bench(gpu);
        bench.lock(clock.value());
        const ClockOption expected = model.run(activity, Seconds(0.5), clock);
        const std::size_t slot = bench.start(activity, 0.5);
        EXPECT_NEAR(to_seconds(predicted_end(bench.spec, bench.state, slot)).value(), expected.time.value(), 2e-9);
        bench.to(100 * kSecond);
        const SimWork& work = bench.work(slot);
        ASSERT_EQ(work.state, WorkState::kDone);
        EXPECT_NEAR(to_seconds(work.end - work.begin).value(), expected.time.value(), 2e-9);
        EXPECT_NEAR(work.end_joules - work.begin_joules, expected.energy.value(), 1e-6);
      }
    }
  }
}

TEST(Board, EnergyDoesNotDependOnHowOftenSomeoneLooks) {
  Bench rarely;
  Bench often;
  for (Bench* bench : {&rarely, &often}) bench->start(bench->spec.forward, 0.7);
  rarely.to(2 * kSecond);
  for (Nanoseconds t = 0; t <= 2 * kSecond; t += 137'911) often.to(t);
  often.to(2 * kSecond);
  EXPECT_NEAR(rarely.joules(), often.joules(), 1e-6);
  EXPECT_EQ(counter_millijoules(rarely.spec, rarely.state), counter_millijoules(often.spec, often.state));
}

TEST(Board, IdleWaitingAndWorkingDrawTheirPowers) {
  Bench bench;
  bench.to(kSecond);
  EXPECT_NEAR(bench.joules(), bench.spec.idle.value(), 1e-9);
  bench.state.processes[0] = {1, 1, 1};  // blocked in a collective
  bench.to(3 * kSecond);
  EXPECT_NEAR(bench.joules(), bench.spec.idle.value() + 2 * bench.spec.waiting.value(), 1e-9);
  // Work takes over from waiting.
  bench.start(bench.spec.forward, 10);
  EXPECT_GT(activity_of(bench.spec, bench.state).power, bench.spec.busy);
}

TEST(Board, AClockAskedForTakesHoldAfterTheLatency) {
  Bench bench;
  const Activity compute{1.0, Watts(100), Watts(0)};  // far below any limit: time goes with 1/f exactly
  const std::size_t slot = bench.start(compute, 1.0);
  bench.to(500 * kMillisecond);
  bench.ask_lock(705);  // half of 1410
  ASSERT_EQ(bench.spec.switch_latency, 10 * kMillisecond);
  // 0.51 s at full speed leave 0.49 s of work, which take 0.98 s at half of it.
  EXPECT_NEAR(to_seconds(predicted_end(bench.spec, bench.state, slot)).value(), 0.51 + 0.98, 2e-9);
  bench.to(509 * kMillisecond);
  EXPECT_EQ(activity_of(bench.spec, bench.state).sm_clock, Megahertz(1410));
  bench.to(511 * kMillisecond);
  EXPECT_EQ(activity_of(bench.spec, bench.state).sm_clock, Megahertz(705));
  bench.to(5 * kSecond);
  EXPECT_NEAR(to_seconds(bench.work(slot).end).value(), 1.49, 2e-9);
  const double low = bench.spec.busy.value() + 100 * relative_dynamic(bench.spec.curve(), 705);
  EXPECT_NEAR(bench.work(slot).end_joules, 0.51 * (bench.spec.busy.value() + 100) + 0.98 * low, 1e-6);
}

TEST(Board, ALowerPowerLimitLowersTheClockUntilItIsKept) {
  Bench bench;
  const Activity compute{1.0, Watts(180), Watts(0)};  // 285 W of 300 at full speed
  bench.start(compute, 10);
  EXPECT_FALSE(activity_of(bench.spec, bench.state).power_limited);
  bench.state.applied.power_limit = Watts(200);
  const BoardActivity limited = activity_of(bench.spec, bench.state);
  EXPECT_TRUE(limited.power_limited);
  EXPECT_NEAR(limited.power.value(), 200, 1e-6);
  EXPECT_LT(limited.sm_clock, Megahertz(1410));
  // The clock at which busy + 180 W * V^2 f / (V^2 f at the top) is 200 W.
  EXPECT_NEAR(relative_dynamic(bench.spec.curve(), limited.sm_clock.value()), (200 - 105) / 180.0, 1e-9);
}

TEST(Board, NoLimitTakesTheClockBelowTheLowest) {
  Bench bench;
  bench.start({1.0, Watts(180), Watts(0)}, 10);
  bench.state.applied.power_limit = Watts(10);
  EXPECT_NEAR(activity_of(bench.spec, bench.state).sm_clock.value(), bench.spec.minimum.value(), 1e-6);
}

TEST(Board, ASlowerMemoryClockSlowsMemoryBoundWorkOnly) {
  Bench bench("h100");  // 2619 and 1593 MHz
  bench.state.applied.memory_lock_maximum = Megahertz(1593);
  const std::size_t memory = bench.start({0.0, Watts(1), Watts(100)}, 1.0);
  bench.to(10 * kSecond);
  EXPECT_NEAR(to_seconds(bench.work(memory).end).value(), 2619.0 / 1593.0, 1e-8);
  const std::size_t compute = bench.start({1.0, Watts(100), Watts(1)}, 1.0);
  bench.to(20 * kSecond);
  EXPECT_NEAR(to_seconds(bench.work(compute).end - bench.work(compute).begin).value(), 1.0, 1e-8);
}

TEST(Board, PiecesOfWorkShareTheBoardInEqualSlices) {
  Bench bench;
  const Activity compute{1.0, Watts(100), Watts(0)};
  const std::size_t longer = bench.start(compute, 3.0);
  const std::size_t shorter = bench.start(compute, 1.0);
  bench.to(10 * kSecond);
  // Both at half speed for 2 s, then the longer one alone for the 2 s that are left of it.
  EXPECT_NEAR(to_seconds(bench.work(shorter).end).value(), 2.0, 2e-9);
  EXPECT_NEAR(to_seconds(bench.work(longer).end).value(), 4.0, 2e-9);
  EXPECT_NEAR(bench.work(longer).end_joules, 4.0 * 205, 1e-6);
}

TEST(Board, EveryPieceOfWorkHasItsOwnEnd) {
  Bench bench;
  for (std::size_t i = 0; i < kSimWorks; ++i) bench.start(bench.spec.forward, 0.01 * static_cast<double>(i + 1));
  EXPECT_EQ(start_work(bench.spec, bench.state, 0, bench.spec.forward, Seconds(1)), -1);
  double total = 0.0;
  for (std::size_t i = 0; i < kSimWorks; ++i) total += 0.01 * static_cast<double>(i + 1);
  bench.to(20 * kSecond);
  for (std::size_t i = 1; i < kSimWorks; ++i) EXPECT_GT(bench.work(i).end, bench.work(i - 1).end);
  EXPECT_NEAR(to_seconds(bench.work(kSimWorks - 1).end).value(), total, 1e-6);
  EXPECT_NEAR(bench.state.busy_seconds.value(), total, 1e-6);
}

TEST(Board, HeatThrottlesTheClock) {
  Bench bench;
  const std::size_t slot = bench.start({1.0, Watts(100), Watts(0)}, 1.0);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kHot, 0, 0, ""}));
  EXPECT_EQ(activity_of(bench.spec, bench.state).sm_clock, bench.spec.throttle);
  bench.to(10 * kSecond);
  EXPECT_NEAR(to_seconds(bench.work(slot).end).value(), 1410.0 / bench.spec.throttle.value(), 2e-9);
  bench.to(200 * kSecond);
  EXPECT_NEAR(bench.state.celsius, bench.spec.slowdown_celsius, 0.1);
  clear_faults(bench.spec, bench.state);
  bench.to(400 * kSecond);
  EXPECT_NEAR(bench.state.celsius, bench.spec.idle_celsius, 0.1);
}

TEST(Board, TemperatureFollowsPowerWithItsTimeConstant) {
  Bench bench;
  bench.start({1.0, bench.spec.limit - bench.spec.busy, Watts(0)}, 1e5);  // just the power limit
  bench.to(static_cast<Nanoseconds>(bench.spec.thermal_seconds * 1e9));
  const double rise = bench.spec.full_celsius - bench.spec.idle_celsius;
  EXPECT_NEAR(bench.state.celsius, bench.spec.idle_celsius + rise * (1 - std::exp(-1.0)), 1e-6);
}

TEST(Sensor, AnA100SeesAQuarterOfTheTime) {
  Bench bench;  // windows of 25 ms, every 100 ms
  bench.to(1000 * kMillisecond);
  bench.start({1.0, Watts(100), Watts(0)}, 0.070);  // from 1000 to 1070 ms; the next window begins at 1075
  bench.to(1099 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 45, 1e-9);
  bench.to(1150 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 45, 1e-9);
  EXPECT_NEAR(bench.joules(), 1.150 * 45 + 0.070 * (205 - 45), 1e-6);
  // The same pulse 20 ms later is seen with the 15 ms that fall into the window.
  bench.to(2020 * kMillisecond);
  bench.start({1.0, Watts(100), Watts(0)}, 0.070);
  bench.to(2099 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 45, 1e-9);
  bench.to(2100 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 45 + (205 - 45) * 15.0 / 25.0, 1e-6);
}

TEST(Sensor, AnH100AveragesOverASecondAndHasAnInstantReading) {
  Bench bench("h100");
  bench.to(5 * kSecond);
  bench.start({1.0, Watts(210), Watts(0)}, 100);  // 400 W on an idle 70
  bench.to(5100 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.instant), 400, 1e-6);
  EXPECT_NEAR(bench.watts(bench.spec.power), 70 + 330 * 0.1, 1e-6);
  bench.to(5550 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.average), 70 + 330 * 0.5, 1e-6);
  bench.to(6000 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 400, 1e-6);
}

TEST(Sensor, AV100IsFiveTimesAsQuick) {
  Bench bench("v100");
  bench.to(kSecond);
  bench.start({1.0, Watts(105), Watts(0)}, 100);
  bench.to(1019 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 40, 1e-6);
  bench.to(1020 * kMillisecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 200, 1e-6);
  EXPECT_EQ(bench.spec.average.window, 0);
}

TEST(Sensor, ReadingsJitterAroundTheTruthAndHoldUntilTheNext) {
  Bench bench;
  bench.spec.sensor_jitter = Watts(0.04);
  double sum = 0.0;
  double last = 0.0;
  constexpr int kReadings = 1000;
  for (int i = 0; i < kReadings; ++i) {
    bench.to((10'000 + i * 100) * kMillisecond);
    const double watts = bench.watts(bench.spec.power);
    EXPECT_NE(watts, last);
    EXPECT_NEAR(watts, 45.0, 0.04);
    bench.to((10'099 + i * 100) * kMillisecond);
    EXPECT_EQ(bench.watts(bench.spec.power), watts);
    sum += watts;
    last = watts;
  }
  EXPECT_NEAR(sum / kReadings, 45.0, 0.004);  // five standard deviations of the mean
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 109'900u * 45u);
}

TEST(Sensor, TheCounterMovesWithItsPeriod) {
  Bench bench;
  bench.to(10'050 * kMillisecond);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 450'000u);
  bench.to(10'099 * kMillisecond);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 450'000u);
  bench.to(10'100 * kMillisecond);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 454'500u);
}

TEST(Sensor, LooksBackOverAnIdleDay) {
  Bench bench;
  bench.to(86'400 * kSecond);
  EXPECT_NEAR(bench.watts(bench.spec.power), 45, 1e-3);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 86'400ull * 45'000);
  EXPECT_EQ(utilisation_of(bench.spec, bench.state).busy, 0.0);
}

TEST(Sensor, UtilisationIsTheShareOfThePastPeriod) {
  Bench bench;
  bench.to(kSecond);
  bench.start({0.25, Watts(10), Watts(10)}, 0.1);
  bench.to(1200 * kMillisecond);
  EXPECT_NEAR(utilisation_of(bench.spec, bench.state).busy, 0.5, 1e-6);
  EXPECT_NEAR(utilisation_of(bench.spec, bench.state).memory, 0.5 * 0.75, 1e-6);
}

TEST(Fault, TheCounterFreezesWrapsAndStartsAgain) {
  Bench bench;
  bench.to(10 * kSecond);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kCounterFrozen, 0, 0, ""}));
  bench.to(20 * kSecond);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 450'000u);
  clear_faults(bench.spec, bench.state);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 900'000u);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kCounterWraps, 0, 400'000, ""}));
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 100'000u);
  clear_faults(bench.spec, bench.state);
  reset_counter(bench.spec, bench.state);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 0u);
  bench.to(21 * kSecond);
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 45'000u);
}

TEST(Fault, ALostBoardComesBackWithNothingLocked) {
  Bench bench;
  bench.lock(705);
  bench.to(kSecond);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kLost, 0, 0, ""}));
  bench.to(2 * kSecond);
  EXPECT_NEAR(bench.joules(), 45, 1e-9);  // a board that is gone draws nothing
  clear_faults(bench.spec, bench.state);
  EXPECT_EQ(bench.state.applied.lock_maximum, Megahertz(0));
  EXPECT_EQ(counter_millijoules(bench.spec, bench.state), 0u);
}

TEST(Fault, NamesACallOrAllOfThem) {
  Bench bench;
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kError, 4, 4, "nvmlDeviceGetName"}));
  EXPECT_NE(find_fault(bench.state, SimFaultKind::kError, "nvmlDeviceGetName"), nullptr);
  EXPECT_EQ(find_fault(bench.state, SimFaultKind::kError, "nvmlDeviceGetUUID"), nullptr);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kError, 5, 5, "nvmlDeviceGetName"}));
  EXPECT_EQ(find_fault(bench.state, SimFaultKind::kError, "nvmlDeviceGetName")->code, 5u);
  ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kHang, 0, 1, "*"}));
  EXPECT_NE(find_fault(bench.state, SimFaultKind::kHang, "nvmlDeviceGetUUID"), nullptr);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(add_fault(bench.spec, bench.state, {SimFaultKind::kError, 1, 1, {static_cast<char>('a' + i)}}));
  }
  EXPECT_FALSE(add_fault(bench.spec, bench.state, {SimFaultKind::kError, 1, 1, "one too many"}));
}

TEST(Board, ClocksSnapToTheListFromTheTop) {
  const BoardSpec spec = board_of("a100");
  EXPECT_EQ(supported_clock(spec, Megahertz(1005)), Megahertz(1005));
  EXPECT_EQ(supported_clock(spec, Megahertz(1004)), Megahertz(990));
  EXPECT_EQ(supported_clock(spec, Megahertz(5000)), Megahertz(1410));
  EXPECT_EQ(supported_clock(spec, Megahertz(1)), Megahertz(210));
}

}  // namespace
}  // namespace flyball
