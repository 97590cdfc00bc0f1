// The model of an iteration that is fitted to recorded runs, and what it says of a recorded point.
//
// Time: the computation DAG of build_dag, with
//   - computations by clock (linear in 1 / clock, which is what arithmetic takes, between measured clocks and below
//     them; above them no faster), where a clock that changes takes hold `latency` after its operation began;
//   - loading before a forward, per stage; transfers that occupy both stages, per link; a part once per iteration.
// Energy, per stage: the power of its computations, min(limit, scale * (share + (1 - share) * x^exponent)) with
// x = clock / highest clock, and while nothing computes the power of waiting at the clock that was set last,
// base + rise * x^exponent.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/timeline.h"
#include "replay/recorded_runs.h"

namespace flyball {

// The laws of power, of numbers or of what knows its derivatives as well; `x` is the clock over the highest.
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

// What one instruction of one stage takes at one clock. Deviations are standard deviations of what stands before them.
struct ClockCost {
  Megahertz clock;
  Seconds time;
  Seconds time_deviation;
  Watts power;
  Watts power_deviation;
};

// What a GPU draws that waits at this clock.
struct WaitingPower {
  Megahertz clock;
  Watts power;
  Watts deviation;
};

struct PowerLaw {
  std::vector<Fitted> scale;     // W; per stage and instruction
  std::vector<Fitted> share;     // per instruction
  std::vector<Fitted> exponent;  // per instruction
  Fitted waiting_base;           // W
  Fitted waiting_rise;           // W
  Fitted waiting_exponent;
  Fitted limit;  // W: the board's power limit
};

struct IterationModel {
  std::vector<std::string> instructions;
  Megahertz top;
  std::vector<std::vector<ClockCost>> costs;  // per stage and instruction, highest clock first
  // How long the first microbatch's operation takes over the others'. It is kept apart: no time of `costs` counts it.
  std::vector<double> first_to_others;  // per instruction
  std::vector<Fitted> loading;          // s, per stage; 0 where nothing is loaded
  std::vector<Fitted> transfer;         // s, per link
  Fitted once;                          // s
  Fitted latency;                       // s
  PowerLaw power;
  std::vector<std::vector<WaitingPower>> waiting;  // per stage, highest clock first
  std::vector<int> points;                         // that it was fitted to, by number
  int time_constants = 0;                          // fitted to iteration times
  int power_constants = 0;                         // fitted to energies

  [[nodiscard]] std::size_t place(int stage, int instruction) const {
    return at(stage) * instructions.size() + at(instruction);
  }
  [[nodiscard]] Seconds time(int stage, int instruction, Megahertz clock) const;
  [[nodiscard]] Watts power_of(int stage, int instruction, Megahertz clock) const;
  [[nodiscard]] Watts waiting_power(Megahertz clock) const;
};

// Which parts of the model take time.
struct ReplayParts {
  bool loading = true;
  bool transfers = true;
  bool once = true;
  bool switching = true;
  bool measured_operations = false;  // computations and loading as this point's own rows say
};

// One iteration of the runs as a DAG. The runs must outlive it.
class RecordedIteration {
 public:
  enum class Part { kComputation, kLoading, kTransfer, kOnce };
  struct Node {
    Part part = Part::kComputation;
    int stage = 0;
    int place = 0;          // of a computation its instruction, of a transfer its link
    std::size_t index = 0;  // of a computation or a loading, in the point's lists
    int before = -1;        // of a computation, the one before on its stage; of the first, the last one
  };

  // Throws InputError where the runs lack an instruction that the schedule needs, UsageError for shapes that it does
  // not allow.
  RecordedIteration(const RecordedRuns& runs, ScheduleKind schedule);

  [[nodiscard]] const RecordedRuns& runs() const { return *runs_; }
  [[nodiscard]] ScheduleKind schedule() const { return schedule_; }
  [[nodiscard]] const ComputationDag& dag() const { return dag_; }
  [[nodiscard]] const Node& node(int i) const { return nodes_[at(i)]; }

  // How long each operation takes. Cost O(nodes * log(clocks)).
  [[nodiscard]] std::vector<Nanoseconds> durations(const IterationModel& model, const RecordedPoint& point,
                                                   ReplayParts parts = {}) const;

 private:
  const RecordedRuns* runs_;
  ScheduleKind schedule_;
  ComputationDag dag_;
  std::vector<Node> nodes_;
};

// How long a stage did what at which clock in an iteration. The last column is waiting, loading, transfers and the part
// once per iteration included: the GPU computes nothing.
struct ClockUse {
  std::vector<Megahertz> clocks;
  std::vector<std::vector<double>> seconds;  // per instruction, then waiting; each per clock
};
[[nodiscard]] std::vector<ClockUse> clock_use(const RecordedIteration& iteration, const RecordedPoint& point,
                                              const std::vector<Nanoseconds>& durations);

struct StageEnergy {
  Joules computing;
  Joules waiting;
};
[[nodiscard]] std::vector<StageEnergy> stage_energies(const IterationModel& model, const std::vector<ClockUse>& use);

}  // namespace flyball
