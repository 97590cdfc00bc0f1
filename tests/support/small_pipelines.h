// Small pipelines for tests: made from a few words, shown as text.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/computation_dag.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/schedule.h"
#include "pipeline/timeline.h"
#include "profile/profile.h"

namespace flyball {

[[nodiscard]] inline std::vector<Seconds> milliseconds(const std::vector<double>& numbers) {
  std::vector<Seconds> times;
  for (const double number : numbers) times.emplace_back(number * 1e-3);
  return times;
}

// A profile from CSV rows without the header.
[[nodiscard]] Profile profile_of_rows(std::string_view rows);

// Every stage alike, one clock: each named instruction takes that many milliseconds and as many joules.
struct Timed {
  std::string instruction;
  int milliseconds;
};
[[nodiscard]] Profile uniform_profile(int stages, const std::vector<Timed>& operations);

// The DAG of a schedule without transfers.
[[nodiscard]] ComputationDag scheduled_dag(ScheduleKind kind, const Profile& profile, int microbatches, int chunks = 1);

// A pipeline of random size with `clocks` random clocks per operation: times rise and energies fall with lower clocks.
[[nodiscard]] Profile random_profile(std::mt19937& random, int stages, const std::vector<std::string>& instructions,
                                     int clocks);

// "F0 F1 B0 B1": F forward, B backward, R recompute, I backward_input, W backward_weight, then the microbatch, then
// "/chunk" where it is not 0.
[[nodiscard]] std::string show(const InstructionStream& stream);

// One line per stage and one character per `slot`: a forward is its microbatch's digit, a backward the letter (a is
// microbatch 0), any other operation the first character of its name in upper case, idle time a dot.
[[nodiscard]] std::string show(const ComputationDag& dag, const Timeline& timeline, Nanoseconds slot = 1'000'000);

// Longest path by relaxing every edge until nothing changes, in no particular order: slow and independent of the DAG's
// numbering.
[[nodiscard]] Nanoseconds slow_makespan(const ComputationDag& dag, const std::vector<Nanoseconds>& durations);

// All operations at the option of that index (0 is the highest clock), or their last where they have fewer.
[[nodiscard]] ClockPlan same_clock_plan(const ComputationDag& dag, std::size_t option);

}  // namespace flyball
