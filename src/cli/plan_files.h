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

// Writes plan, report, pictures, summary and Zeus files, each of them whole or not at all, the report last. The same
// input gives the same bytes, since no file holds what was measured while planning. The Zeus files,
// plan-switching.json and plan-budget-N.json of an earlier run are removed first; other files stay.
// `command` is shown in the report. Throws SystemError.
std::vector<WrittenFile> write_plan_files(const std::filesystem::path& folder, const LoadedPipeline& pipeline,
                                          const std::vector<PlannerRun>& runs, ZeusFiles zeus,
                                          const std::string& command);

}  // namespace flyball
