// Scheduling policies, which decide who gets how many GPUs at which speed. A file in policies/ adds one or more
// policies, and nothing else has to change: src/cluster/CMakeLists.txt writes the table that calls every file's add
// function.
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

// What has happened since the last decision; each list is in rising order of jobs or kinds.
struct ClusterEvents {
  std::vector<int> arrived;
  std::vector<int> finished;
  std::vector<int> profiled;       // profiling ended or was cut short; these may be changed again
  std::vector<int> kinds_changed;  // kinds about which the belief has changed
  std::vector<int> power_changed;  // kinds of which only the power that counts against the limit has changed
  bool timer = false;              // the time has come that the policy had asked for
  bool budget = false;             // the power limit changed

  void clear() { *this = {}; }
};

// From now on the job has this many GPUs (0: none, its progress is kept) and this speed. Jobs that no assignment names
// stay as they are. The number must be a size of the job's kind.
//
// With a partner, the job is put on the GPUs that the partner has after the decision. Both must have as many GPUs and
// the same speed, be data-parallel, and fit together into a GPU's memory. If an assignment names only one of two jobs
// that share GPUs, that one leaves, and the other keeps the GPUs.
struct Assignment {
  int job = 0;
  int gpus = 0;
  int speed = 0;
  int partner = -1;     // -1: the job has its GPUs alone
  bool closer = false;  // only kAnywhere: a job that keeps its number of GPUs is moved if it then lies on fewer nodes
};

struct Decision {
  std::vector<Assignment> assignments;
  std::optional<Seconds> wake_at;  // ask again at this time, even if nothing happens; replaced by later decisions

  void clear() {
    assignments.clear();
    wake_at.reset();
  }
};

// How a policy wants the cluster to be run. Use designated initialisers: {.profiles = true}.
struct PolicyTraits {
  PlacementRule placement = PlacementRule::kAnywhere;
  bool profiles = false;  // jobs are profiled at sizes that they have not had before
  // What it costs to take GPUs away and to give as many back, for policies that keep jobs in memory; none: a restart.
  std::optional<Seconds> resume = std::nullopt;
  int jobs_per_gpu = 1;  // at most; 2 only with kAnywhere and without profiling
  // Only the first job of a kind is profiled at a size, since the others train the same network with the same batch
  // size.
  bool profiles_kinds = false;
  // The most speeds at which a job is profiled, evenly spread up to the speed that is assigned.
  int profiled_speeds = std::numeric_limits<int>::max();
};

// Called by one thread, in the order of simulated time. Must be deterministic: no wall clock, no addresses, and no
// unordered containers in what affects a decision.
class Policy {
 public:
  virtual ~Policy() = default;

  [[nodiscard]] virtual PolicyTraits traits() const = 0;

  // Adds to `decision`, which is empty at first. Afterwards the GPUs of all jobs must be at most the cluster's, and
  // jobs that are being profiled must keep theirs; the simulator throws Error otherwise. A job whose profiling begins
  // goes through the speeds up to the one assigned, as far as the power limit allows, and then stays at the last of
  // them.
  virtual void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) = 0;

  // What the policy needs in a snapshot besides the cluster's state. restore() gets it, on a new policy, before the
  // first decide().
  [[nodiscard]] virtual nlohmann::ordered_json save() const;
  virtual void restore(const ClusterState& cluster, const nlohmann::ordered_json& saved);
};

struct PolicyOptions {
  std::optional<Megahertz> clock;  // the clock of all jobs under policies that choose none; default: the fastest
  bool packing = true;             // whether policies that can share GPUs among jobs do so
  double zeus_eta = 0.5;           // for policies that use Zeus: how much energy counts against time, 0 to 1
};

// The setting that moves a policy along its curve of JCT against energy.
enum class PolicySetting {
  kClock,   // PolicyOptions::clock
  kBudget,  // the power limit, SimulationSetup::eta
  kZeusEta  // PolicyOptions::zeus_eta
};
template <>
inline constexpr auto kNamesOf<PolicySetting> = name_list("clock_mhz", "eta", "zeus_eta");

// Flyball's own policy, to which others are compared (docs/decisions/0022).
inline constexpr std::string_view kDefaultPolicy = "joule-price";

class PolicyRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Policy>(const PolicyOptions&)>;

  // `name` is for the command line, `title` for reports. Throws Error for a name that exists.
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

// Every policy of the build, by file, then in the order added.
[[nodiscard]] const PolicyRegistry& policies();
[[nodiscard]] std::vector<std::string> policy_names();
// The policy of this name. Throws UsageError, which lists the names, for any other.
[[nodiscard]] const PolicyRegistry::Entry& find_policy(std::string_view name);
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options = {});

// Defined in a generated file.
void add_all_policies(PolicyRegistry& registry);

}  // namespace flyball
