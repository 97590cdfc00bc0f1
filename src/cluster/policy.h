// Scheduling policies, which decide which jobs get how many GPUs at which speed. To add a policy, put a file into
// policies/. Nothing else has to change: src/cluster/CMakeLists.txt writes the table that calls every file's add
// function.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "cluster/cluster_state.h"
#include "cluster/placement.h"

namespace flyball {

// What has happened since the last decision; each list is in rising order of jobs or kinds.
struct ClusterEvents {
  std::vector<int> arrived;
  std::vector<int> finished;
  std::vector<int> profiled;       // jobs whose profiling ended or was cut short, so that they may be changed again
  std::vector<int> kinds_changed;  // kinds whose believed costs have changed
  std::vector<int> power_changed;  // kinds of which only the power that counts against the limit has changed
  bool timer = false;              // the time Decision::wake_at has come
  bool budget = false;             // the power limit changed

  void clear() { *this = {}; }
};

// Gives a job a number of GPUs and a speed from now on. With 0 GPUs the job stops and keeps its progress; any other
// number must be a size of the job's kind. Jobs that no assignment names stay as they are.
//
// With a partner, the job is put on the GPUs that the partner has after the decision. Both must have the same number of
// GPUs and the same speed, be data-parallel, and fit together into a GPU's memory. If assignments name only one of two
// jobs that share GPUs, that job leaves them, and the other one keeps them.
struct Assignment {
  int job = 0;
  int gpus = 0;
  int speed = 0;
  int partner = -1;     // -1: the job has its GPUs alone
  bool closer = false;  // only kAnywhere: whether to move a job of unchanged GPUs if it then lies on fewer nodes
};

struct Decision {
  std::vector<Assignment> assignments;
  std::optional<Seconds> wake_at;  // asks for a decision at this time if none comes before; each decision replaces it

  void clear() {
    assignments.clear();
    wake_at.reset();
  }
};

// How a policy wants the cluster to be run. Make it by designated initialisers: {.profiles = true}.
struct PolicyTraits {
  PlacementRule placement = PlacementRule::kAnywhere;
  bool profiles = false;  // whether jobs are profiled at sizes that they have not had before
  // The time that a job loses when its GPUs are taken away and as many are given back, under policies that keep jobs in
  // memory. Without a value, the job restarts.
  std::optional<Seconds> resume = std::nullopt;
  int jobs_per_gpu = 1;  // at most; 2 only with kAnywhere and without profiling
  // Only the first job of a kind is profiled at a size, since the others train the same network with the same batch
  // size.
  bool profiles_kinds = false;
  // At how many speeds a job is profiled at most; they are evenly spread up to the speed that is assigned.
  int profiled_speeds = std::numeric_limits<int>::max();
};

// A scheduling policy. One thread calls it, in the order of simulated time. It must be deterministic: neither a wall
// clock nor addresses nor the order of an unordered container may affect a decision.
class Policy {
 public:
  virtual ~Policy() = default;

  [[nodiscard]] virtual PolicyTraits traits() const = 0;

  // Decides what to do about `events` and adds it to `decision`, which is empty at first. Afterwards the GPUs of all
  // jobs must be no more than the cluster has, and jobs that are being profiled must keep theirs; otherwise the
  // simulator throws Error. A job whose profiling begins goes through the speeds up to the one assigned, as far as the
  // power limit allows, and then stays at the last of them.
  virtual void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) = 0;
};

struct PolicyOptions {
  std::optional<Megahertz> clock;  // the clock of all jobs under policies that choose none; none: each job's fastest
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

// Flyball's own policy, with which others are compared (docs/decisions/0022).
inline constexpr std::string_view kDefaultPolicy = "joule-price";

// A table of policies by name.
class PolicyRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Policy>(const PolicyOptions&)>;

  // Adds a policy. `name` is for the command line, `title` for reports. Throws Error for a name that exists.
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

// Returns every policy of the build, by file, then in the order added.
[[nodiscard]] const PolicyRegistry& policies();
[[nodiscard]] std::vector<std::string> policy_names();
// Both functions throw UsageError, which lists the names, where there is no policy of this name.
[[nodiscard]] const PolicyRegistry::Entry& find_policy(std::string_view name);
[[nodiscard]] std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options = {});

// Calls the add function of every file in policies/. Defined in a generated file.
void add_all_policies(PolicyRegistry& registry);

}  // namespace flyball
