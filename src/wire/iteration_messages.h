// A job's last iteration as it was measured, over the same iteration as it was planned. Described in
// iteration_messages.cpp, as wire/job_messages.h says of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/described.h"
#include "base/units.h"
#include "wire/step_messages.h"

namespace flyball {

// Iterations of one pipeline with more operations are not measured. One of so many takes some 3 MB as JSON.
inline constexpr std::size_t kMostIterationOperations = 32'768;

// Operations of one kind on one stage, with the ways in which the plan runs them.
struct IterationType {
  struct Setting {
    Megahertz clock;  // 0: none is set
    Seconds time;     // by the profile, as is the next
    Joules energy;
    Watts power;
  };
  std::string instruction;
  std::string letters;  // with which labels begin: "F"
  bool is_forward = false;
  bool occupies_stage = true;  // false: runs beside what the stage computes, as transfers do
  int stage = 0;
  std::vector<Setting> settings;
};

// Columns, each with one entry for every operation. An operation stands behind all that it waits for. Times count from
// when the first computation begins: as planned, and as measured.
struct IterationOperations {
  std::vector<int> type;        // index of an IterationType
  std::vector<int> microbatch;  // -1: of the whole iteration
  std::vector<int> chunk;
  std::vector<int> setting;                 // index of one of its type's
  std::vector<std::vector<int>> waits_for;  // indices of operations
  std::vector<Seconds> planned_begin;
  std::vector<Seconds> planned_time;
  std::vector<std::optional<Seconds>> measured_begin;  // none where nobody measures, as of transfers
  std::vector<std::optional<Seconds>> measured_time;
  // How much later than planned it ended, and what it added to that itself: it began later after the last that it waits
  // for, or took longer. Below 0: sooner. None where it was not measured.
  std::vector<std::optional<Seconds>> late;
  std::vector<std::optional<Seconds>> added;
};

// GET /v1/jobs/{job}/iteration
struct MeasuredIteration {
  std::string job;
  std::string missing;       // why there is none; all below is then empty
  std::int64_t version = 0;  // of the schedule
  std::int64_t step = 0;
  Seconds measured_at;  // when its last report came, in seconds since 1970
  // Of the iteration, what the schedule promises, and what passed from its first computation's begin to its last one's
  // end, by plan and as measured.
  Seconds promised_time;
  Seconds planned_time;
  Seconds measured_time;
  std::int64_t clock_changes = 0;  // of all stages by plan, from one iteration to the next included
  std::vector<StepClock> clocks;   // of the measured times, by stage
  std::vector<IterationType> types;
  IterationOperations operations;
};

[[nodiscard]] Record<IterationType::Setting> description_of(const IterationType::Setting*);
[[nodiscard]] Record<IterationType> description_of(const IterationType*);
[[nodiscard]] Record<IterationOperations> description_of(const IterationOperations*);
[[nodiscard]] Record<MeasuredIteration> description_of(const MeasuredIteration*);

}  // namespace flyball
