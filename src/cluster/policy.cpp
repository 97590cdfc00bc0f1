// The table of all policies is made once, from the add functions of the files in policies/.
#include "cluster/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"

namespace flyball {

void PolicyRegistry::add(std::string name, std::string title, PolicySetting setting, Factory factory) {
  for (const Entry& entry : entries_) {
    if (entry.name == name) throw Error(fmt::format("two policies are named {}", name));
  }
  entries_.push_back({std::move(name), std::move(title), setting, std::move(factory)});
}

const PolicyRegistry& policies() {
  static const PolicyRegistry all = [] {
    PolicyRegistry registry;
    add_all_policies(registry);
    return registry;
  }();
  return all;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyRegistry::Entry& entry : policies().entries()) names.push_back(entry.name);
  return names;
}

const PolicyRegistry::Entry& find_policy(std::string_view name) {
  for (const PolicyRegistry::Entry& entry : policies().entries()) {
    if (entry.name == name) return entry;
  }
  const std::string meant = nearest_name(name, policy_names());
  throw UsageError(fmt::format("no policy '{}'{}; there are {}", name,
                               meant.empty() ? "" : fmt::format("; did you mean {}?", meant),
                               fmt::join(policy_names(), ", ")));
}

std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options) {
  return find_policy(name).factory(options);
}

}  // namespace flyball
