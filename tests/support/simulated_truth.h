// A training program on a GPU of which everything is known, and what a board's sensor shows of it.
//
// The model has the shape of BERT: twelve layers of tensors, forward and backward, of tens to hundreds of microseconds,
// each kind with a power of its own. The sensor shows, every `sampling`, the mean of the last `window`, as NVIDIA's
// boards do, with noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/memory_traces.h"

namespace flyball::testing {

struct TruthShape {
  int layers = 12;
  int iterations = 600;
  Nanoseconds sampling = 4 * kMillisecond;
  Nanoseconds window = 100 * kMillisecond;
  double noise_watts = 0.5;
  double idle_watts = 60.0;
};

struct Truth {
  std::vector<TraceEvent> events;
  std::vector<PowerSegment> readings;
  std::vector<std::string> names;  // by operation
  std::vector<double> energy;      // J, by operation
  double idle = 0.0;               // J, from the first reading to the last
};

inline Truth make_truth(const TruthShape& shape, std::uint64_t seed) {
  struct Kind {
    const char* name;
    double microseconds, watts;
  };
  constexpr Kind kLayer[] = {{"attention/self/query/MatMul", 180, 290},
                             {"attention/self/key/MatMul", 180, 290},
                             {"attention/self/value/MatMul", 180, 290},
                             {"attention/self/scores/BatchMatMul", 130, 240},
                             {"attention/self/Softmax", 150, 120},
                             {"attention/self/Dropout", 90, 105},
                             {"attention/self/context/BatchMatMul", 130, 235},
                             {"attention/self/Transpose", 110, 130},
                             {"attention/output/dense/MatMul", 180, 295},
                             {"attention/output/LayerNorm", 120, 125},
                             {"intermediate/dense/MatMul", 420, 330},
                             {"intermediate/Gelu", 260, 140},
                             {"output/dense/MatMul", 420, 335},
                             {"output/Dropout", 80, 110},
                             {"output/LayerNorm", 120, 125}};
  std::mt19937_64 random(seed);
  const auto about = [&random](double mean, double spread) {
    // The sum of three dice, near enough to normal and the same everywhere.
    double sum = 0.0;
    for (int i = 0; i < 3; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    return mean * (1.0 + spread * 2.0 * sum);
  };
  struct Step {
    OperationId operation;
    double microseconds, watts;
  };
  Truth truth;
  std::vector<Step> steps;
  const auto add = [&](const std::string& name, double microseconds, double watts) {
    steps.push_back({static_cast<OperationId>(truth.names.size()), about(microseconds, 0.1), about(watts, 0.03)});
    truth.names.push_back(name);
  };
  add("bert/embeddings/Gather", 300, 115);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const Kind& kind : kLayer) {
      add("bert/encoder/layer_" + std::to_string(layer) + '/' + kind.name, kind.microseconds, kind.watts);
    }
  }
  add("loss/LogSoftmax", 400, 180);
  for (int layer = shape.layers - 1; layer >= 0; --layer) {
    for (const Kind& kind : kLayer) {
      add("gradients/bert/encoder/layer_" + std::to_string(layer) + '/' + kind.name, 2 * kind.microseconds, kind.watts);
    }
  }
  add("Adam/update", 6000, 150);
  truth.energy.assign(truth.names.size(), 0.0);

  // Power as steps in time, with the energy up to each.
  std::vector<Nanoseconds> times = {0};
  std::vector<double> joules = {0.0};
  const auto draw = [&](Nanoseconds length, double watts) {
    times.push_back(times.back() + length);
    joules.push_back(joules.back() + watts * static_cast<double>(length) * 1e-9);
  };
  draw(300 * kMillisecond, shape.idle_watts);
  std::vector<std::pair<Nanoseconds, Nanoseconds>> busy;
  for (int i = 0; i < shape.iterations; ++i) {
    for (const Step& step : steps) {
      const auto length = static_cast<Nanoseconds>(about(step.microseconds, 0.05) * 1e3);
      const double watts = about(step.watts, 0.02);
      truth.events.push_back({times.back(), times.back() + length, 0, step.operation});
      truth.energy[step.operation] += watts * static_cast<double>(length) * 1e-9;
      draw(length, watts);
      draw(static_cast<Nanoseconds>(about(4.0, 0.5) * 1e3), shape.idle_watts);  // between two kernels
    }
    draw(static_cast<Nanoseconds>(about(8e6, 0.5)), shape.idle_watts);  // the next batch is loaded
  }
  draw(300 * kMillisecond, shape.idle_watts);

  std::size_t at = 0;
  const auto energy_until = [&](Nanoseconds time) {
    while (at > 0 && times[at] > time) --at;
    while (at + 2 < times.size() && times[at + 1] <= time) ++at;
    const double share = static_cast<double>(time - times[at]) / static_cast<double>(times[at + 1] - times[at]);
    return joules[at] + share * (joules[at + 1] - joules[at]);
  };
  Nanoseconds reading = shape.window;
  for (; reading + shape.sampling < times.back(); reading += shape.sampling) {
    const double mean =
        (energy_until(reading) - energy_until(reading - shape.window)) / (static_cast<double>(shape.window) * 1e-9);
    truth.readings.push_back({reading, reading + shape.sampling, 0,
                              Watts(std::max(mean + about(shape.noise_watts, 1.0) - shape.noise_watts, 0.0))});
  }
  double attributed = 0.0;
  for (const double energy : truth.energy) attributed += energy;
  truth.idle = energy_until(reading) - energy_until(shape.window) - attributed;
  return truth;
}

}  // namespace flyball::testing
