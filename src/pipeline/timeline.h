// The timeline emulator: when each operation of an iteration starts and ends, where the bubbles are, what is critical,
// and where the energy goes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"

namespace flyball {

// One clock for every operation: the index into its type's options. The thing that planners make.
using ClockPlan = std::vector<std::uint16_t>;

struct Timeline {
  std::vector<Nanoseconds> start;  // as early as predecessors allow
  std::vector<Nanoseconds> finish;
  std::vector<Nanoseconds> latest_start;  // without delaying the iteration
  Nanoseconds makespan = 0;

  // Operations whose delay delays the iteration.
  [[nodiscard]] bool critical(int i) const {
    return start[static_cast<std::size_t>(i)] == latest_start[static_cast<std::size_t>(i)];
  }
};

// As-soon-as-possible execution with the given durations, one per operation. Cost O(nodes + edges).
[[nodiscard]] Timeline emulate(const ComputationDag& dag, std::span<const Nanoseconds> durations);

// Makespan alone; `finish` is scratch of dag.size() values.
[[nodiscard]] Nanoseconds makespan(const ComputationDag& dag, std::span<const Nanoseconds> durations,
                                   std::span<Nanoseconds> finish);

// One critical path, first operation first. Where several predecessors end last, the one on the same stage is taken.
[[nodiscard]] std::vector<int> critical_path(const ComputationDag& dag, const Timeline& timeline);

// Durations of a plan from the measured options.
[[nodiscard]] std::vector<Nanoseconds> plan_durations(const ComputationDag& dag, const ClockPlan& plan);

// The part of an operation's power that a stage which waits would draw anyway, so that running the operation for t
// takes e - charged_blocking * t more than waiting does. An operation's energy is the GPU's whole draw. A computation
// takes the place of waiting, and may draw less; a transfer runs beside it, and what it draws up to the blocking power
// is that of the wait. One without energy of its own hence costs the wait and nothing else.
[[nodiscard]] Watts charged_blocking(const OperationType& type, Watts blocking);

// Perseus eq. 3, for one pipeline: what the chosen discrete clocks really take.
struct EnergyBreakdown {
  Joules computation;     // sum of e_i, transfers included
  Joules blocking;        // P_blocking * N T - sum of charged_blocking * t_i: bubbles and waits inside the iteration
  Joules straggler_wait;  // P_blocking * N * (T' - T)

  [[nodiscard]] Joules total() const { return computation + blocking + straggler_wait; }
};

// `blocking` holds one power per stage; `straggler_time` below the makespan counts as no straggler.
[[nodiscard]] EnergyBreakdown energy_of(const ComputationDag& dag, const ClockPlan& plan, Nanoseconds makespan,
                                        std::span<const Watts> blocking, Nanoseconds straggler_time = 0);

// Clock changes that running a plan over and over makes: pairs of neighbours on a stage with different clocks, the step
// from the last operation to the next iteration's first included; operations without a choice keep the clock.
[[nodiscard]] int count_switches(const ComputationDag& dag, const ClockPlan& plan);

// The option whose clock is nearest; the higher one where two are equally near.
[[nodiscard]] std::uint16_t nearest_option(const OperationType& type, Megahertz clock);

}  // namespace flyball
