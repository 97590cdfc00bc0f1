// Frequency plans in the form that Zeus's pipeline frequency optimizer runs.
//
// One Python file per plan, freqs_pipeline_NNNNN.py: a list with one entry per stage, each a list of (instruction,
// clock in MHz) pairs in the order in which the stage runs them; its server evaluates the file as one expression, so
// comments are all that may stand beside it. Larger numbers are shorter iterations. A clock of 0 leaves the clock as it
// is. Source: the Zeus manual, "Pipeline Frequency Optimizer", and its PointSolution scheduler's reader.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "pipeline/computation_dag.h"
#include "pipeline/timeline.h"
#include "plan/frontier.h"

namespace flyball {

// One plan's text. Only what a framework announces to Zeus stands in it: the computations of each stage; transfers,
// data loading, gradient synchronisation and optimizer step do not. "forward.1" (a chunk's own profile) is announced as
// "forward". `comment` goes below the list, one '#' line per line.
[[nodiscard]] std::string zeus_frequencies(const ComputationDag& dag, const ClockPlan& plan,
                                           const std::string& comment);

// "freqs_pipeline_00012.py"
[[nodiscard]] std::string zeus_file_name(std::size_t number);

// Writes every point of the frontier to `folder`, slowest first, hence as number 0. Returns the number of files. Throws
// SystemError when a file cannot be written.
std::size_t write_zeus_files(const std::filesystem::path& folder, const ComputationDag& dag, const Frontier& frontier);

}  // namespace flyball
