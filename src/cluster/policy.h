// Scheduling policies: who gets how many GPUs at which speed. One file in policies/ adds one or more policies; nothing
// else has to change (src/cluster/CMakeLists.txt writes the table that calls every file's add function).
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "cluster/cluster_state.h"
#include "cluster/placement.h"

namespace flyball {

// What happened since the last decision; each list rising in job or kind.
struct ClusterEvents {
  std::vector<int> arrived;
  std::vector<int> finished;
  std::vector<int> profiled;       // profiling ended, or was cut short: free to be changed again
  std::vector<int> kinds_changed;  // what is believed about them changed
  std::vector<int> power_changed;  // only what they count with against the limit did
  bool timer = false;              // the time that the policy had asked for
  bool budget = false;             // the power limit changed

  void clear() { *this = {}; }
};

// From now on the job has these GPUs (0: none; its progress is kept) and this speed. Jobs that are not named stay as
// they are. GPUs must be a size of the job's kind.
//
// With a partner, the job is to be on the GPUs that the partner has after the decision, which must be as many, at one
// speed; both are data-parallel, and what they need of a GPU's memory must fit. Of two that share, the first that is
// named without the other leaves; the other keeps the GPUs.
struct Assignment {
  int job = 0;
  int gpus = 0;
  int speed = 0;
  int partner = -1;     // -1: the job has its GPUs alone
  bool closer = false;  // a job that keeps as many is moved, if that brings it onto fewer nodes; kAnywhere only
};

struct Decision {
  std::vector<Assignment> assignments;
  std::optional<Seconds> wake_at;  // ask again then, even if nothing happens; a later decision replaces it

  void clear() {
    assignments.clear();
    wake_at.reset();
  }
};

// How a policy wants the cluster to be run; name what you set ({.profiles = true}).
struct PolicyTraits {
  PlacementRule placement = PlacementRule::kAnywhere;
  bool profiles = false;  // jobs are profiled at sizes that they have not had before
  // What taking GPUs away and giving as many back costs; nullopt: a restart. For policies that keep jobs in memory.
  std::optional<Seconds> resume = std::nullopt;
  int jobs_per_gpu = 1;  // at most; 2 only with kAnywhere and without profiling
  // Only the first job of a kind is profiled at a size: the others train the same network with the same batch size.
  bool profiles_kinds = false;
  // Of the speeds up to the one that is assigned, a job is profiled at so many at most, evenly spread.
  int profiled_speeds = std::numeric_limits<int>::max();
};

// Called by one thread, in the order of simulated time. Deterministic: no clocks, no addresses, no unordered containers
// in what reaches a decision.
class Policy {
 public:
  virtual ~Policy() = default;

  [[nodiscard]] virtual PolicyTraits traits() const = 0;

  // Adds to `decision`, which comes empty. The GPUs of all jobs after it must be at most the cluster's, and jobs that
  // are being profiled keep their GPUs (a job without profile is free); the simulator throws Error otherwise. A job
  // that begins to be profiled goes through the speeds up to the one assigned, as far as the power limit allows, and
  // runs on at the last of them.
  virtual void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) = 0;

  // Whatever the policy needs to go on from a snapshot, beyond the cluster's state; restore() gets it on a new policy,
  // before the first decide().
  [[nodiscard]] virtual nlohmann::ordered_json save() const;
  virtual void restore(const ClusterState& cluster, const nlohmann::ordered_json& saved);
};

struct PolicyOptions {
  std::optional<Megahertz> clock;  // policies that choose no clocks run all jobs at this one; default: the fastest
  bool packing = true;             // those that share GPUs among jobs do so
  double zeus_eta = 0.5;           // those with Zeus's: how much energy counts against time, 0 to 1
};

// What moves a policy along its curve of JCT against energy.
enum class PolicySetting {
  kClock,   // PolicyOptions::clock
  kBudget,  // the power limit, SimulationSetup::eta
  kZeusEta  // PolicyOptions::zeus_eta
};
template <>
inline constexpr auto kNamesOf<PolicySetting> = name_list("clock_mhz", "eta", "zeus_eta");

// Flyball's own, which others are measured by (docs/decisions/0022).
inline constexpr std::string_view kDefaultPolicy = "joule-price";

class PolicyRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Policy>(const PolicyOptions&)>;

  // `name` as on the command line; `title` as in reports. Throws Error for a name that is there already.
  void add(std::string name, std::string title, PolicySetting setting, Factory factory);

  struct Entry {
    std::string name;
    std::string title;
    PolicySetting setting;
    Factory factory;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// Every policy of the build, by file then as added.
[[nodiscard]] const PolicyRegistry& policies();
// Throw UsageError, naming the known ones.
[[nodiscard]] const PolicyRegistry::Entry& find_policy(std::string_view name);
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options = {});

// Generated.
void add_all_policies(PolicyRegistry& registry);

}  // namespace flyball
