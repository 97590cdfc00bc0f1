// The plan file: a frontier, with the clock of every operation at every point, as JSON.
//
// docs/formats/plan.md describes the format, and docs/formats/plan.schema.json is its JSON Schema. Operations and
// measured options are listed once, and a point lists only the clocks that differ from the point before it, which keeps
// the file small. Units are seconds, joules, watts and megahertz.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "pipeline/computation_dag.h"
#include "plan/frontier.h"

namespace flyball {

struct PlanFileHeader {
  std::string planner;                  // "perseus"
  std::string source;                   // the profile's name, for people
  std::string schedule;                 // "1f1b"; empty for an explicit DAG
  std::optional<std::size_t> selected;  // index of the point to run
};

// Returns the text of a plan file. The frontier's plans must be plans of `dag`; `blocking` holds one power per stage.
// Deterministic. Cost: linear in operations times points. Throws Error when two operation types have the same stage and
// instruction, since the file refers to a type by these.
[[nodiscard]] std::string write_plan_json(const PlanFileHeader& header, const ComputationDag& dag,
                                          const std::vector<Watts>& blocking, const Frontier& frontier);

struct PlanFile {
  PlanFileHeader header;
  ComputationDag dag;
  std::vector<Watts> blocking;
  Frontier frontier;
};

// Both functions read back every plan exactly as it was written; `source` names the text in error messages. They throw
// InputError: with line and column for text that is no JSON, with the path of the value ("points[3].edits[0]") for JSON
// that is no plan file.
[[nodiscard]] PlanFile read_plan_json(const std::string& source, std::string_view text);
[[nodiscard]] PlanFile read_plan_file(const std::filesystem::path& path);

}  // namespace flyball
