// What the iterations of a job take, by the energy counters of its ranks' GPUs, beside what its plan promises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"
#include "wire/job_messages.h"

namespace flyball {

// Of the whole job, as shares of what maximum clocks take in the same time.
struct EnergyComparison {
  double promised = 0.0;
  double measured = 0.0;
  double error = 0.0;  // standard error of measured

  // Whether iterations take more than at maximum clocks, and more than promised by more than kPromiseTolerance, so
  // surely that chance hardly plays a part.
  [[nodiscard]] bool costs_more() const { return measured - 1.0 > kEnergyDeviations * error; }
  [[nodiscard]] bool is_dearer() const { return measured - promised > kPromiseTolerance + kEnergyDeviations * error; }
};

// What a pipeline's schedule promises of its energy.
struct EnergyPromise {
  double share = 0.0;  // of what maximum clocks take in the same time; 0: nothing is promised
  Watts waiting;       // of a pipeline with one GPU per stage at maximum clocks
};

// Of one job. Not thread-safe. energy() is linear in the number of ranks.
class EnergyWatch {
 public:
  // Takes what a rank has measured, at this pipeline and stage: of a schedule at maximum clocks only what these take.
  void take(const PromiseReport& report, int pipeline, int stage, bool at_maximum);
  // Returns what all pipelines take of which every stage has measured both: the last plan, and maximum clocks, by the
  // schedule of `at_maximum_version` unless that is 0. `promised` has each pipeline's promise. Ranks of one
  // stage count by their mean. None where there is no such pipeline, or nothing is promised.
  template <class PromiseOf>
  [[nodiscard]] std::optional<EnergyComparison> energy(int stages, std::int64_t at_maximum_version,
                                                       const PromiseOf& promised) const {
    Sums sums;
    for (auto begin = ranks_.begin(); begin != ranks_.end();) {
      const int pipeline = begin->first.first.first;
      auto end = begin;
      while (end != ranks_.end() && end->first.first.first == pipeline) ++end;
      add_pipeline(sums, begin, end, stages, at_maximum_version, promised(pipeline));
      begin = end;
    }
    return energy_of(sums);
  }

 private:
  struct Measured {
    IterationEnergy energy;
    Seconds planned_time;
    Seconds at_maximum_time;
    std::int64_t planned_version = 0;
    std::int64_t at_maximum_version = 0;
  };
  // By pipeline, stage and rank.
  using Ranks = std::map<std::pair<std::pair<int, int>, int>, Measured>;
  struct Sums {
    double planned = 0.0;
    double at_maximum = 0.0;
    double promised = 0.0;
    double planned_variance = 0.0;
    double at_maximum_variance = 0.0;
  };
  void add_pipeline(Sums& sums, Ranks::const_iterator begin, Ranks::const_iterator end, int stages,
                    std::int64_t at_maximum_version, const EnergyPromise& promised) const;
  static std::optional<EnergyComparison> energy_of(const Sums& sums);

  Ranks ranks_;
  std::int64_t planned_version_ = 0;  // of the last schedule by plan
};

}  // namespace flyball
