// A program on a device of which the energy of every operation is known, and a counter that is less than ideal: the
// truth that error estimates are held against. It does not share the regression's form: power is a function of time
// that is integrated tick by tick, operations draw another power each time that they run, power follows what runs with
// a delay, streams add their powers, the counter has noise and is late.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "trace/trace.h"

namespace flyball::testing {

enum class StepOrder : std::uint8_t {
  kFixed,   // all steps run the same operations in the same order
  kRandom,  // each step runs as many, drawn by lot
  kMixed,   // half of the operations in the same order, then as many drawn by lot
  kLocked,  // fixed, and a step is a whole number of the sensor's periods
};

struct UnkindShape {
  StepOrder order = StepOrder::kFixed;
  int operations = 40;
  Nanoseconds shortest = kMillisecond;  // lengths are log-uniform
  Nanoseconds longest = 8 * kMillisecond;
  Nanoseconds period = 20 * kMillisecond;
  Nanoseconds length = 30 * kSecond;
  double noise_watts = 0.5;    // of a reading
  double variation = 0.03;     // of an operation's power from one execution to another, relative
  double jitter = 0.01;        // of an operation's length, relative
  double gap_share = 0.3;      // how often the device waits for the host after an operation
  Nanoseconds ramp = 0;        // time constant with which an operation's power rises from that of idle time
  Nanoseconds smoothing = 0;   // time constant with which what the counter sees follows the device's power
  Nanoseconds lag = 0;         // by which the counter is late
  Nanoseconds late = 0;        // by up to which the stamp of a reading is late, by lot
  double second_stream = 0.0;  // how often an operation of a second stream begins together with one of the first
  double beside = 1.0;         // what of its own power an operation of the second stream adds
  double follows = 0.0;        // by up to which part an operation's power depends on the one before it
  double surge = 0.0;          // by which part an operation's power is higher at first, for 1 ms
  double untraced = 0.0;       // W of work that is in no trace, for 5 to 50 ms, a tenth of the time
  double least_watts = 100.0;  // of operations
  double most_watts = 350.0;
  double idle_watts = 60.0;
};

struct UnkindTruth {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> readings;
  std::vector<double> energy;  // J, by operation
};

inline UnkindTruth make_unkind_truth(const UnkindShape& shape, std::uint64_t seed) {
  constexpr Nanoseconds kTick = 50'000;
  std::mt19937_64 random(seed);
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto normal = [&uniform] {  // Box and Muller's, the same everywhere
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * 3.14159265358979323846 * uniform());
  };
  const auto ticks = [](double nanoseconds) {
    return std::max<std::int64_t>(1, std::llround(nanoseconds / static_cast<double>(kTick)));
  };
  const auto count = static_cast<std::size_t>(shape.operations);
  std::vector<double> lengths(count);  // ticks
  std::vector<double> watts(count);
  // Powers are drawn evenly in one of two programs, in the other near both ends, as of products and copies.
  const bool two_kinds = seed % 2 == 1;
  for (std::size_t i = 0; i < count; ++i) {
    lengths[i] = static_cast<double>(shape.shortest) *
                 std::pow(static_cast<double>(shape.longest) / static_cast<double>(shape.shortest), uniform()) /
                 static_cast<double>(kTick);
    double level = uniform();
    if (two_kinds) level = level < 0.5 ? 0.4 * level : 0.6 + 0.4 * level;
    watts[i] = shape.least_watts + (shape.most_watts - shape.least_watts) * level;
  }
  const bool locked = shape.order == StepOrder::kLocked;
  if (locked) {
    const double period = static_cast<double>(shape.period) / static_cast<double>(kTick);
    double sum = 0.0;
    for (double& length : lengths) sum += length = std::round(length);
    lengths.back() += std::ceil(sum / period) * period - sum;
  }

  const auto size = static_cast<std::size_t>(shape.length / kTick);
  std::vector<double> first(size);   // power above idle that the first stream asks for, by tick
  std::vector<double> second(size);  // and the second
  std::vector<int> what(size, -1);
  std::vector<int> beside(size, -1);
  UnkindTruth truth;
  // Of each pair of operations the same each time, evenly from -1 to 1.
  const auto pair_level = [seed, count](std::size_t before, std::size_t operation) {
    return static_cast<double>(std::mt19937_64(seed + 1000 * (before * count + operation + 1))() >> 11) * 0x1p-52 - 1.0;
  };
  std::size_t before_it = 0;
  const auto run = [&](std::size_t begin, std::size_t operation, std::vector<double>& power, std::vector<int>& who) {
    double own = watts[operation] * std::max(0.0, 1.0 + shape.variation * normal()) - shape.idle_watts;
    if (shape.follows > 0.0) own *= 1.0 + shape.follows * pair_level(before_it, operation);
    if (&power == &second) own *= shape.beside;
    before_it = operation;
    const double stretch = locked ? 1.0 : std::max(0.2, 1.0 + shape.jitter * normal());
    const auto end =
        begin + static_cast<std::size_t>(std::max<std::int64_t>(1, std::llround(lengths[operation] * stretch)));
    if (end >= size) return size;
    for (std::size_t t = begin; t < end; ++t) {
      const double ran = (static_cast<double>(t - begin) + 0.5) * static_cast<double>(kTick);
      power[t] = shape.ramp > 0 ? own * -std::expm1(-ran / static_cast<double>(shape.ramp)) : own;
      if (ran < 1e6) power[t] *= 1.0 + shape.surge;
      who[t] = static_cast<int>(operation);
    }
    truth.events.push_back({static_cast<Nanoseconds>(begin) * kTick, static_cast<Nanoseconds>(end) * kTick, 0,
                            static_cast<OperationId>(operation)});
    return end;
  };
  std::vector<std::size_t> step(count);
  std::iota(step.begin(), step.end(), std::size_t{0});
  std::size_t now = 0;
  std::size_t second_free = 0;
  for (std::size_t at = 0; now < size; ++at) {
    const std::size_t place = at % count;
    const bool by_lot = shape.order == StepOrder::kRandom || (shape.order == StepOrder::kMixed && place >= count / 2);
    const std::size_t operation = by_lot ? random() % count : step[place];
    if (uniform() < shape.second_stream && now >= second_free) {
      second_free = run(now, random() % count, second, beside);
    }
    now = run(now, operation, first, what);
    if (!locked && uniform() < shape.gap_share) now += static_cast<std::size_t>(ticks(2e6 * uniform() * uniform()));
  }
  std::stable_sort(truth.events.begin(), truth.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.begin < b.begin; });

  // What is drawn above idle belongs to who draws it, idle power to who runs, in equal parts.
  truth.energy.assign(count, 0.0);
  const double seconds = static_cast<double>(kTick) * 1e-9;
  // What is in no trace belongs to nobody; the rows' truth does not have it.
  std::vector<double> unknown(size, 0.0);
  for (std::size_t t = 0; shape.untraced > 0.0 && t < size;) {
    const double burst = 5e6 + 45e6 * uniform();
    t += static_cast<std::size_t>(ticks(18.0 * 27.5e6 * uniform()));
    for (std::int64_t i = 0; i < ticks(burst) && t < size; ++i) unknown[t++] = shape.untraced;
  }
  const double follow =
      shape.smoothing > 0 ? 1.0 - std::exp(-static_cast<double>(kTick) / static_cast<double>(shape.smoothing)) : 1.0;
  std::vector<double> joules(size + 1, 0.0);
  double seen = 0.0;
  for (std::size_t t = 0; t < size; ++t) {
    seen += follow * (first[t] + second[t] + unknown[t] - seen);
    joules[t + 1] = joules[t] + (shape.idle_watts + seen) * seconds;
    const int runs = (what[t] >= 0 ? 1 : 0) + (beside[t] >= 0 ? 1 : 0);
    for (const auto* who : {&what, &beside}) {
      if ((*who)[t] < 0) continue;
      const double own = (who == &what ? first : second)[t];
      truth.energy[static_cast<std::size_t>((*who)[t])] += (shape.idle_watts / runs + own) * seconds;
    }
  }
  const auto period = static_cast<std::size_t>(shape.period / kTick);
  const auto lag = static_cast<std::size_t>(shape.lag / kTick);
  std::size_t stamp = 0;
  const auto most_late = static_cast<std::size_t>(shape.late / kTick);
  double before = 0.0;
  for (std::size_t t = period; t + most_late <= size; t += period) {
    const std::size_t next = t + static_cast<std::size_t>(static_cast<double>(most_late) * uniform());
    const double counted = joules[t > lag ? t - lag : 0];
    const double mean = (counted - before) / (static_cast<double>(next - stamp) * seconds);
    truth.readings.push_back({static_cast<Nanoseconds>(stamp) * kTick, static_cast<Nanoseconds>(next) * kTick, 0,
                              Watts(std::max(mean + shape.noise_watts * normal(), 0.0))});
    stamp = next;
    before = counted;
  }
  return truth;
}

}  // namespace flyball::testing
