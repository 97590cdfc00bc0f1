// The model of an iteration that is fitted to recorded runs, and its predictions for a recorded point.
//
// Time. The operations run as in the computation DAG of build_dag().
//   - The time of a computation depends on its clock. It is linear in 1 / clock, as the time of arithmetic is, between
//     measured clocks and below them; above them it is constant. A clock that changes takes hold `latency` after its
//     operation began.
//   - Loading before a forward takes a constant time per stage, a transfer, which occupies both stages, a constant time
//     per link. Another constant part, such as the optimizer's step, runs once per iteration.
// Energy. A stage's computations draw min(limit, scale * (share + (1 - share) * x^exponent)), with x = clock / highest
// clock. While nothing computes, the stage waits at the clock that was set last and draws base + rise * x^exponent.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/own_name.h"
#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/timeline.h"
#include "replay/recorded_runs.h"

namespace flyball {

// The laws of power in watts. T is double, or a type that carries its derivatives along. `x` is the clock over the
// highest clock.
template <class T>
T computing_power(const T& scale, const T& share, const T& exponent, const T& limit, double x) {
  using std::pow;
  const T power = scale * (share + (1.0 - share) * pow(x, exponent));
  return power < limit ? power : limit;
}
template <class T>
T power_while_waiting(const T& base, const T& rise, const T& exponent, double x) {
  using std::pow;
  return base + rise * pow(x, exponent);
}

// A fitted number with its standard deviation.
struct Fitted {
  double value = 0.0;
  double deviation = 0.0;
};

// What one instruction of one stage takes at one clock. Each deviation is the standard deviation of the member before
// it.
struct ClockCost {
  Megahertz clock;
  Seconds time;
  Seconds time_deviation;
  Watts power;
  Watts power_deviation;
};

// Ratios of times, with their standard deviations.
struct OwnRatios {
  Fitted first{1.0, 0.0};
  Fitted last{1.0, 0.0};

  [[nodiscard]] Fitted of(Microbatches of) const {
    return of == Microbatches::kAll ? Fitted{1.0, 0.0} : of == Microbatches::kFirst ? first : last;
  }
};

// What a GPU draws while it waits at this clock.
struct WaitingPower {
  Megahertz clock;
  Watts power;
  Watts deviation;
};

// The parameters of the laws of power.
struct PowerLaw {
  std::vector<Fitted> scale;     // W; per stage and instruction
  std::vector<Fitted> share;     // per instruction
  std::vector<Fitted> exponent;  // per instruction
  Fitted waiting_base;           // W
  Fitted waiting_rise;           // W
  Fitted waiting_exponent;
  Fitted limit;  // W: the board's power limit
};

// The fitted model. fit_iteration() makes it.
struct IterationModel {
  std::vector<std::string> instructions;
  Megahertz top;                              // the highest clock
  std::vector<std::vector<ClockCost>> costs;  // per stage and instruction, highest clock first
  // The time of the first and of the last microbatch's operation over that of those between, whose costs `costs` are:
  // per stage and instruction, 1 where the runs do not tell them apart. Empty: all are alike.
  std::vector<OwnRatios> own;
  std::vector<Fitted> loading;   // s, per stage; 0 where nothing is loaded
  std::vector<Fitted> transfer;  // s, per link
  Fitted once;                   // s, the part once per iteration
  Fitted latency;                // s, until a clock change takes hold
  PowerLaw power;
  std::vector<std::vector<WaitingPower>> waiting;  // per stage, highest clock first
  std::vector<int> points;                         // RecordedPoint::number of the points that it was fitted to
  int time_constants = 0;                          // how many constants were fitted to iteration times
  int power_constants = 0;                         // how many constants were fitted to energies

  // The index into `costs` and PowerLaw::scale.
  [[nodiscard]] std::size_t place(int stage, int instruction) const {
    return at(stage) * instructions.size() + at(instruction);
  }
  [[nodiscard]] Seconds time(int stage, int instruction, Megahertz clock, Microbatches of = Microbatches::kAll) const;
  [[nodiscard]] Watts power_of(int stage, int instruction, Megahertz clock) const;
  [[nodiscard]] Watts waiting_power(Megahertz clock) const;
};

// Which parts of the model take time in a replay.
struct ReplayParts {
  bool loading = true;
  bool transfers = true;
  bool once = true;
  bool switching = true;
  bool measured_operations = false;  // computations and loading take the times of the point's own rows
};

// One iteration of the runs as a DAG. The runs must outlive it. Immutable.
class RecordedIteration {
 public:
  enum class Part { kComputation, kLoading, kTransfer, kOnce };
  struct Node {
    Part part = Part::kComputation;
    int stage = 0;
    int place = 0;          // the instruction of a computation, the link of a transfer
    std::size_t index = 0;  // where a point's lists have the computation or the loading
    int before = -1;        // the computation before this one on its stage; before the first one, the last
    Microbatches of = Microbatches::kAll;  // by the order of running; all alike where an iteration has few
  };

  // Throws InputError where the runs lack an instruction that the schedule needs, and UsageError where the schedule
  // does not allow their numbers of stages and microbatches or needs chunks.
  RecordedIteration(const RecordedRuns& runs, ScheduleKind schedule);

  [[nodiscard]] const RecordedRuns& runs() const { return *runs_; }
  [[nodiscard]] ScheduleKind schedule() const { return schedule_; }
  [[nodiscard]] const ComputationDag& dag() const { return dag_; }
  [[nodiscard]] const Node& node(int i) const { return nodes_[at(i)]; }

  // Returns how long each operation takes, by node. Cost: O(nodes * clocks).
  [[nodiscard]] std::vector<Nanoseconds> durations(const IterationModel& model, const RecordedPoint& point,
                                                   ReplayParts parts = {}) const;

 private:
  const RecordedRuns* runs_;
  ScheduleKind schedule_;
  ComputationDag dag_;
  std::vector<Node> nodes_;
};

// How long a stage ran each instruction at each clock in an iteration. The last row is the time in which the GPU
// computes nothing: waiting, loading, transfers and the part once per iteration.
struct ClockUse {
  std::vector<Megahertz> clocks;
  std::vector<std::vector<double>> seconds;  // per instruction, then waiting; each per clock
};
[[nodiscard]] std::vector<ClockUse> clock_use(const RecordedIteration& iteration, const RecordedPoint& point,
                                              const std::vector<Nanoseconds>& durations);

// The energy of one stage in an iteration.
struct StageEnergy {
  Joules computing;
  Joules waiting;
};
[[nodiscard]] std::vector<StageEnergy> stage_energies(const IterationModel& model, const std::vector<ClockUse>& use);

}  // namespace flyball
