// The timeline emulator: when each operation of an iteration starts and ends, which are critical, and what the
// iteration's energy consists of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"

namespace flyball {

// One clock for every operation, as an index into its type's options. This is what planners make.
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

// Runs every operation as soon as possible, with the given durations, one per operation. Cost O(nodes + edges).
[[nodiscard]] Timeline emulate(const ComputationDag& dag, std::span<const Nanoseconds> durations);

// Returns the makespan alone; `finish` is scratch space of dag.size() values.
[[nodiscard]] Nanoseconds makespan(const ComputationDag& dag, std::span<const Nanoseconds> durations,
                                   std::span<Nanoseconds> finish);

// Returns one critical path, first operation first. Where several predecessors end last, the one on the same stage is
// taken.
[[nodiscard]] std::vector<int> critical_path(const ComputationDag& dag, const Timeline& timeline);

// Returns the durations of a plan from the measured options.
[[nodiscard]] std::vector<Nanoseconds> plan_durations(const ComputationDag& dag, const ClockPlan& plan);

// Returns the part of an operation's power that a waiting stage would draw anyway, so that running the operation for t
// takes e - charged_blocking * t more than waiting does. An operation's energy is the GPU's whole draw. A computation
// replaces waiting, and may draw less; a transfer runs beside it, and what it draws up to the blocking power counts as
// the wait's. A transfer without energy of its own thus costs the wait and nothing else.
[[nodiscard]] Watts charged_blocking(const OperationType& type, Watts blocking);

// Returns whether waiting takes the same at all clocks, which is so if no operation type has powers of waiting of its
// own.
[[nodiscard]] bool waits_alike(const ComputationDag& dag);

// Calls wait(from, until, above) for each wait of a stage, in order of time, the last one until `end`. `above` is what
// the stage draws meanwhile above its blocking power (OperationType::waiting_above): it waits at the clock of the last
// operation that has such powers, in the iteration before if there was none yet, since plans run over and over. Before
// an operation with a choice of clocks it waits at the clock of that one if the DAG's engine asks for it when the stage
// is free (ComputationDag::clocks_asked()); after the last one it keeps the last one's clock in either case, since no
// engine asks for the next iteration's clocks before that begins. `finish` is as makespan() leaves it for these
// durations. Returns the last wait's `above`.
template <class Wait>
Watts for_each_wait(const ComputationDag& dag, const ClockPlan& plan, int stage, std::span<const Nanoseconds> durations,
                    std::span<const Nanoseconds> finish, Nanoseconds end, Wait wait) {
  const auto hold = [&](std::size_t i, Watts held) {
    const OperationType& type = dag.type_of(static_cast<int>(i));
    return type.waiting_above.empty() ? held : type.waiting_above[plan[i]];
  };
  Watts held;
  for (const int i : dag.stage_order(stage)) held = hold(static_cast<std::size_t>(i), held);
  Nanoseconds free = 0;
  for (const int operation : dag.stage_order(stage)) {
    if (dag.type_of(operation).waits) continue;
    const auto i = static_cast<std::size_t>(operation);
    const Watts own = hold(i, held);
    const bool ahead = dag.clocks_asked() != ClocksAsked::kAtBegin && dag.type_of(operation).options.size() > 1;
    wait(free, finish[i] - durations[i], ahead ? own : held);
    held = own;
    free = finish[i];
  }
  wait(free, end, held);
  return held;
}

// What a stage that waits draws above its blocking power.
struct WaitingAbove {
  Joules inside;  // within the iteration
  Watts after;    // while it waits for a straggler
};

// Returns one per stage, or none where no operation type has such powers. `finish` is as makespan() leaves it for these
// durations. Cost O(nodes).
[[nodiscard]] std::vector<WaitingAbove> waiting_above(const ComputationDag& dag, const ClockPlan& plan,
                                                      std::span<const Nanoseconds> durations,
                                                      std::span<const Nanoseconds> finish);
// Returns what the first form does for a plan whose operations run as their options were measured.
[[nodiscard]] std::vector<WaitingAbove> waiting_above(const ComputationDag& dag, const ClockPlan& plan);
[[nodiscard]] WaitingAbove sum_of(const std::vector<WaitingAbove>& stages);
// Returns what all stages draw together while they wait for a straggler, after a plan's iteration.
[[nodiscard]] Watts straggler_power(const ComputationDag& dag, const ClockPlan& plan, std::span<const Watts> blocking);

// Perseus eq. 3 for one pipeline: the energy that the chosen discrete clocks really take.
struct EnergyBreakdown {
  Joules computation;     // sum of e_i, transfers included
  Joules blocking;        // P_blocking * N T - sum of charged_blocking * t_i: bubbles and waits inside the iteration
  Joules straggler_wait;  // P_blocking * N * (T' - T); this and the last with what waiting takes above P_blocking

  [[nodiscard]] Joules total() const { return computation + blocking + straggler_wait; }
};

// `blocking` holds one power per stage; `straggler_time` below the makespan counts as no straggler.
[[nodiscard]] EnergyBreakdown energy_of(const ComputationDag& dag, const ClockPlan& plan, Nanoseconds makespan,
                                        std::span<const Watts> blocking, Nanoseconds straggler_time = 0);

// Counts the clock changes per iteration when a plan is run over and over: neighbours on a stage with different clocks,
// from the last operation to the next iteration's first included. Operations without a choice keep the clock.
[[nodiscard]] int count_switches(const ComputationDag& dag, const ClockPlan& plan);

// Returns the option whose clock is nearest; the higher one where two are equally near, and the fastest of one clock.
[[nodiscard]] std::uint16_t nearest_option(const OperationType& type, Megahertz clock);
// Returns such an option for an operation that keeps the labels of one of its options: of the nearest clock's options
// the one with these labels, where there is one.
[[nodiscard]] std::uint16_t nearest_option(const OperationType& type, Megahertz clock, std::uint16_t labelled_as);

}  // namespace flyball
