// A thread for each node: it makes the lease and the clocks what is wanted, and then reads the watts, so that a reading
// that was asked for after a change shows it.
#include "controller/node_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "base/text.h"
#include "client/agent_client.h"

namespace flyball {
namespace {

constexpr std::string_view kNodePlace = "{node}";
constexpr Seconds kShortPeriod{0.1};
constexpr double kOtherLimit = 1.02;  // a limit for later that is higher by less is left: it costs the agent a write
constexpr Nanoseconds kHurry = 5 * kSecond;  // how long the short period lasts after a change

}  // namespace

class NodeAgents::Node {
 public:
  Node(const std::string& address, const NodeAgentsOptions& options)
      : options_(options),
        client_(parse_endpoint(address),
                {.timeout = options.call_limit, .token = options.token, .ca_file = options.ca_file}) {
    shown_.address = address;
    thread_.emplace("an agent's thread", options.period, [this] { return turn(); });
  }

  void stop() { thread_->stop(); }

  void want(const std::vector<GpuWish>& wishes) {
    {
      const std::lock_guard lock(mutex_);
      if (wishes == wanted_) return;
      wanted_ = wishes;
    }
    thread_->wake();
  }

  [[nodiscard]] AgentReading reading() const {
    const std::lock_guard lock(mutex_);
    AgentReading reading = shown_;
    if (seen_ != 0) reading.age = to_seconds(monotonic_now() - seen_);
    reading.answers = reading.age && *reading.age <= options_.silent_after;
    return reading;
  }

 private:
  // Returns how long to pause.
  Seconds turn() {
    std::optional<std::vector<GpuWish>> wanted;
    {
      const std::lock_guard lock(mutex_);
      wanted = wanted_;
    }
    std::string trouble;
    try {
      trouble = exchange(wanted.value_or(std::vector<GpuWish>()), wanted.has_value());
    } catch (const Error& error) {
      trouble = error.what();
    }
    const std::lock_guard lock(mutex_);
    shown_.trouble = trouble;
    return monotonic_now() < hurry_until_ ? std::min(kShortPeriod, options_.period) : options_.period;
  }

  // Returns what went wrong with single GPUs; throws where nothing works.
  std::string exchange(const std::vector<GpuWish>& wanted, bool is_told) {
    std::string trouble;
    for (auto lease = leases_.begin(); lease != leases_.end();) {
      const std::string lost = (*lease)->lost();
      if (!lost.empty()) trouble = "the lease was lost: " + lost;
      lease = lost.empty() ? std::next(lease) : drop(lease);
    }
    if (wanted.empty()) {
      while (!leases_.empty()) {
        leases_.front()->release();
        drop(leases_.begin());
      }
      if (is_told && may_be_capped_) trouble = lift_caps();
    } else {
      may_be_capped_ = true;
      if (!has_looked_) look();
      try {
        take_lease(wanted);
      } catch (const AgentRefusal& refusal) {
        trouble = refusal.what();
      }
      // All clocks before any limit for later.
      for (const auto what : {&Node::set_bound, &Node::set_lost_limit}) {
        for (const std::unique_ptr<AgentLease>& lease : leases_) {
          for (const std::size_t gpu : lease->info().gpus) {
            try {
              (this->*what)(*lease, gpu, gpu < wanted.size() ? wanted[gpu] : GpuWish());
            } catch (const AgentRefusal& refusal) {
              trouble = fmt::format("GPU {}: {}", gpu, refusal.what());
            } catch (const SystemError&) {
              // The connection is closed, which ends the lease.
              drop(std::ranges::find(leases_, lease));
              throw;
            }
          }
        }
      }
    }
    look();
    return trouble;
  }

  // Those of GPUs that nobody has leased.
  std::string lift_caps() {
    std::string trouble;
    look();
    for (std::size_t gpu = 0; gpu < is_capped_.size(); ++gpu) {
      if (!is_capped_[gpu] || is_leased_[gpu]) continue;
      try {
        (void)client_.lift_cap(gpu);
      } catch (const AgentRefusal& refusal) {
        trouble = fmt::format("GPU {}: {}", gpu, refusal.what());
      }
    }
    may_be_capped_ = false;
    return trouble;
  }

  using Leases = std::vector<std::unique_ptr<AgentLease>>;

  Leases::iterator drop(Leases::iterator lease) {
    for (const std::size_t gpu : (*lease)->info().gpus) {
      note(gpu, Megahertz(0.0));
      lost_limits_.erase(gpu);
    }
    return leases_.erase(lease);
  }

  // Of all GPUs of the node that nobody has leased, and again when one of the others has come free and is needed.
  void take_lease(const std::vector<GpuWish>& wanted) {
    LeaseRequest request;
    request.purpose = "flyball cluster run";
    request.may_set = {Knob::kSmClocks, Knob::kPowerLimit};
    request.heartbeat_timeout = options_.heartbeat_timeout;
    bool needed = leases_.empty();
    for (std::size_t gpu = 0; gpu < is_leased_.size(); ++gpu) {
      if (is_leased_[gpu]) continue;
      request.gpus.push_back(gpu);
      needed |= gpu < wanted.size() && wanted[gpu].bound.value() > 0.0;
    }
    if (request.gpus.empty() || !needed) return;
    leases_.push_back(std::make_unique<AgentLease>(client_.lease(request)));
    for (const std::size_t gpu : request.gpus) is_leased_[gpu] = true;
  }

  void set_bound(AgentLease& lease, std::size_t gpu, const GpuWish& wish) {
    if (has_bound(gpu, wish.bound)) return;
    if (wish.bound.value() <= 0.0) {
      lease.reset_sm_clocks(gpu);
    } else {
      const std::vector<Megahertz>& clocks = known_clocks(gpu).sm_clocks;  // highest first
      if (clocks.empty()) throw AgentRefusal(409, "no clock may be set");
      const auto highest = std::ranges::find_if(clocks, [&](Megahertz clock) { return clock <= wish.bound; });
      lease.lock_sm_clocks(gpu, {clocks.back(), highest == clocks.end() ? clocks.back() : *highest});
    }
    note(gpu, wish.bound);
  }

  // Also lifts the limit that a lost controller has left, now that its GPU has a clock again.
  void set_lost_limit(AgentLease& lease, std::size_t gpu, const GpuWish& wish) {
    Watts& before = lost_limits_[gpu];
    const bool differs = wish.lost_limit < before || wish.lost_limit > before * kOtherLimit;
    const bool lifts = is_capped_.at(gpu) && has_bound(gpu, wish.bound);
    if (!differs && !lifts) return;
    SettingsChange change;
    if (wish.lost_limit.value() > 0.0) {
      change.lost_power_limit = std::max(wish.lost_limit, known_clocks(gpu).power_limit.minimum);
    } else if (before.value() > 0.0) {
      change.lost_power_limit = std::optional<Watts>();
    }
    if (lifts) change.power_limit = std::optional<Watts>();
    lease.change(gpu, change);
    before = wish.lost_limit;
    if (lifts) is_capped_[gpu] = false;
  }

  [[nodiscard]] bool has_bound(std::size_t gpu, Megahertz bound) const {
    const std::lock_guard lock(mutex_);
    return shown_.gpus.at(gpu).bound == bound;
  }

  const GpuClocks& known_clocks(std::size_t gpu) {
    const auto known = clocks_.find(gpu);
    return known == clocks_.end() ? clocks_.emplace(gpu, client_.clocks(gpu)).first->second : known->second;
  }

  void note(std::size_t gpu, Megahertz bound) {
    const std::lock_guard lock(mutex_);
    if (gpu >= shown_.gpus.size()) shown_.gpus.resize(gpu + 1);
    shown_.gpus[gpu].bound = bound;
    shown_.gpus[gpu].bound_since = monotonic_now();
    hurry_until_ = monotonic_now() + kHurry;
  }

  void look() {
    const Nanoseconds asked = monotonic_now();
    const NodeStatus status = client_.devices();
    is_leased_.assign(status.gpus.size(), false);
    is_capped_.assign(status.gpus.size(), false);
    const std::lock_guard lock(mutex_);
    shown_.gpus.resize(status.gpus.size());
    for (std::size_t gpu = 0; gpu < status.gpus.size(); ++gpu) {
      is_leased_[gpu] = status.gpus[gpu].lease.has_value();
      is_capped_[gpu] = status.gpus[gpu].cap.has_value();
      shown_.gpus[gpu].power = status.gpus[gpu].power;
      shown_.gpus[gpu].energy = status.gpus[gpu].energy;
    }
    shown_.asked = asked;
    seen_ = monotonic_now();
    has_looked_ = true;
  }

  const NodeAgentsOptions& options_;
  // In the thread alone:
  AgentClient client_;
  Leases leases_;
  std::vector<bool> is_leased_;  // to whomever, at the last look
  std::vector<bool> is_capped_;  // by a controller that was lost
  std::map<std::size_t, GpuClocks> clocks_;
  std::map<std::size_t, Watts> lost_limits_;  // as stated
  bool has_looked_ = false;
  bool may_be_capped_ = true;  // by a controller that was lost, this one's last lease included

  mutable std::mutex mutex_;                    // guards what follows
  std::optional<std::vector<GpuWish>> wanted_;  // none: nothing was said yet
  AgentReading shown_;
  Nanoseconds seen_ = 0;
  Nanoseconds hurry_until_ = 0;

  std::optional<PeriodicThread> thread_;
};

NodeAgents::NodeAgents(NodeAgentsOptions options) : options_(std::move(options)) {
  if (!options_.pattern.empty() && !contains(options_.pattern, kNodePlace)) {
    throw UsageError(fmt::format("'{}' is the same address for all agents; write {} where the node's name stands",
                                 options_.pattern, kNodePlace));
  }
  if (!options_.pattern.empty()) (void)parse_endpoint(address_of("node"));
  for (const auto& [node, address] : options_.addresses) (void)parse_endpoint(address);
}

// All are told before the first is waited for.
NodeAgents::~NodeAgents() {
  for (const auto& [name, node] : nodes_) node->stop();
}

std::string NodeAgents::address_of(const std::string& node) const {
  if (const auto own = options_.addresses.find(node); own != options_.addresses.end()) return own->second;
  std::string address = options_.pattern;
  if (!address.empty()) address.replace(address.find(kNodePlace), kNodePlace.size(), node);
  return address;
}

void NodeAgents::add(const std::string& node) {
  const std::string address = address_of(node);
  if (!address.empty() && nodes_.count(node) == 0) nodes_[node] = std::make_unique<Node>(address, options_);
}

void NodeAgents::wait_for_readings(Seconds most) const {
  const Nanoseconds end = monotonic_now() + to_nanoseconds(most);
  for (const auto& [name, node] : nodes_) {
    while (!node->reading().age && monotonic_now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void NodeAgents::want(const std::string& node, const std::vector<GpuWish>& wishes) {
  if (const auto known = nodes_.find(node); known != nodes_.end()) known->second->want(wishes);
}

std::vector<std::string> NodeAgents::nodes() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) names.push_back(name);
  return names;
}

AgentReading NodeAgents::reading(const std::string& node) const {
  const auto known = nodes_.find(node);
  return known == nodes_.end() ? AgentReading() : known->second->reading();
}

}  // namespace flyball
