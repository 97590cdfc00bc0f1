// The files of `flyball plan --out DIR`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/pipeline_options.h"
#include "cli/planning_run.h"

namespace flyball {

enum class ZeusFiles { kSelected, kAll, kNone };

struct WrittenFile {
  std::string name;  // relative to the folder
  std::string what;  // for people
};

// Writes plan, report, pictures, summary and Zeus files; every file whole or not at all, the report last. Same input,
// same bytes: what was measured while planning stands in none of them. An earlier run's Zeus files and
// plan-switching.json go away first, other files stay. `command` is shown in the report. Throws SystemError.
std::vector<WrittenFile> write_plan_files(const std::filesystem::path& folder, const LoadedPipeline& pipeline,
                                          const std::vector<PlannerRun>& runs, ZeusFiles zeus,
                                          const std::string& command);

}  // namespace flyball
