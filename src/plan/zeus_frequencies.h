// Writes plans in the form that Zeus's pipeline frequency optimizer runs.
//
// One Python file per plan, freqs_pipeline_NNNNN.py: a list with one entry per stage, each a list of (instruction,
// clock in MHz) pairs in the order in which the stage runs them. A clock of 0 leaves the clock as it is. Files with
// larger numbers hold plans of shorter iterations. Zeus's server evaluates a file as one expression, so that only
// comments may be added. Source: the Zeus manual, "Pipeline Frequency Optimizer", and the code of its PointSolution
// scheduler.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"

namespace flyball {

// Returns the text of one plan. It lists what a framework announces to Zeus: the computations of each stage, without
// transfers, data loading, gradient synchronisation and optimizer step. "forward.1" (chunk 1, with a profile of its
// own) is announced as "forward". `comment` is written below the list, each line after a '#'.
[[nodiscard]] std::string zeus_frequencies(const ComputationDag& dag, const ClockPlan& plan,
                                           const std::string& comment);

// Returns the name of a plan's file, such as "freqs_pipeline_00012.py".
[[nodiscard]] std::string zeus_file_name(std::size_t number);

// Writes every point of the frontier to `folder`; number 0 is the slowest. Returns the number of files. Throws
// SystemError when a file cannot be written.
std::size_t write_zeus_files(const std::filesystem::path& folder, const ComputationDag& dag, const Frontier& frontier);

}  // namespace flyball
