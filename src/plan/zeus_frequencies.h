// Writes and reads plans in the form that Zeus's pipeline frequency optimizer runs, and writes their labels in the form
// of Kareus.
//
// One Python file per plan, freqs_pipeline_NNNNN.py: a list with one entry per stage, each a list of (instruction,
// clock in MHz) pairs in the order in which the stage runs them. A clock of 0 leaves the clock as it is. Files with
// larger numbers hold plans of shorter iterations. Zeus's server evaluates a file as one expression, so that only
// comments may be added. Source: the Zeus manual, "Pipeline Frequency Optimizer", and the code of its PointSolution
// scheduler.
//
// Kareus (OSDI'26) gives the clocks of such a file to Zeus's server and reads beside it, for each computation in the
// same order, what it is to run with: scheds_pipeline_NNNNN.py, lists of (instruction, label, label, ...). Source: the
// files that its authors publish.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"

namespace flyball {

// Returns the text of one plan. It lists what a framework announces to Zeus: the computations of each stage, without
// transfers, data loading, gradient synchronisation and optimizer step. "forward.1" (chunk 1, with a profile of its
// own) is announced as "forward". `comment` is written below the list, each line after a '#'.
[[nodiscard]] std::string zeus_frequencies(const ComputationDag& dag, const ClockPlan& plan,
                                           const std::string& comment);

struct AnnouncedClock {
  std::string instruction;
  int clock_mhz = 0;

  bool operator==(const AnnouncedClock&) const = default;
};

// Reads such a text, whoever wrote it (Perseus, Kareus), with pairs in any brackets: a list per stage. Throws
// InputError with line and column for anything else. Comments are passed over.
[[nodiscard]] std::vector<std::vector<AnnouncedClock>> read_zeus_frequencies(const std::string& source,
                                                                             std::string_view text);

// Returns whether some announced computation has labels, which a file of clocks leaves out.
[[nodiscard]] bool announces_labels(const ComputationDag& dag);

// Returns the text of one plan's labels: the values of each announced computation's labels, in the order of the
// profile's columns. `comment` as above.
[[nodiscard]] std::string kareus_schedules(const ComputationDag& dag, const ClockPlan& plan,
                                           const std::string& comment);

// Return the name of a plan's file, such as "freqs_pipeline_00012.py".
[[nodiscard]] std::string zeus_file_name(std::size_t number);
[[nodiscard]] std::string kareus_file_name(std::size_t number);  // "scheds_pipeline_00012.py"

// Writes every point of the frontier to `folder`, with labels where there are any; number 0 is the slowest. Returns the
// number of plans. Throws SystemError when a file cannot be written.
std::size_t write_zeus_files(const std::filesystem::path& folder, const ComputationDag& dag, const Frontier& frontier);

}  // namespace flyball
