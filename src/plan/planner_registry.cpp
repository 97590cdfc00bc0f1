// The table of all planners: a new planner is two files of its own and a line here.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/envpipe.h"
#include "plan/joint.h"
#include "plan/perseus.h"
#include "plan/planner.h"
#include "plan/zeus.h"

namespace flyball {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Planner> (*make)();
};

constexpr Entry kPlanners[] = {
    {"perseus", make_perseus},
    {"joint", make_joint},
    {"envpipe", [] { return make_envpipe(EnvPipePolicy::kBalanced); }},
    {"envpipe-greedy", [] { return make_envpipe(EnvPipePolicy::kGreedy); }},
    {"envpipe-no-reconfigure", [] { return make_envpipe(EnvPipePolicy::kNoReconfigure); }},
    {"max", make_max},
    {"uniform", make_uniform},
    {"zeus-global", make_zeus_global},
    {"zeus-per-stage", make_zeus_per_stage},
};

}  // namespace

std::unique_ptr<Planner> make_planner(std::string_view name) {
  for (const Entry& entry : kPlanners) {
    if (entry.name == name) return entry.make();
  }
  throw UsageError(fmt::format("unknown planner '{}'; known are {}", name, fmt::join(planner_names(), ", ")));
}

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPlanners) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> planners_named(const std::string& name) {
  if (name != kAllPlanners) return {name};
  std::vector<std::string> names = planner_names();
  std::stable_partition(names.begin(), names.end(), [](const std::string& one) { return one == kMainPlanner; });
  return names;
}

}  // namespace flyball
