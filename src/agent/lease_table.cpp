// Two maps, lease by identifier and identifier by GPU; expiry is a scan over all leases, of which a node has a few.
// The last 256 ends are remembered, to tell a lease that has ended from one that never was.
#include "agent/lease_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random_digits.h"

namespace flyball {
namespace {

using Reason = LeaseRefused::Reason;

constexpr std::size_t kRememberedEnds = 256;
constexpr std::size_t kMostBarred = 1024;

// Whether silence ends the lease: not while it is being prepared, and not without a timeout.
bool is_timed(const Lease& lease) { return lease.heartbeat_timeout.value() > 0 && !lease.preparing; }

Nanoseconds deadline_of(const Lease& lease) { return lease.heard + to_nanoseconds(lease.heartbeat_timeout); }

}  // namespace

bool Claimant::same_user(const Claimant& other) const { return local == other.local && (!local || uid == other.uid); }

bool Claimant::same_process(const Claimant& other) const {
  if (!same_user(other)) return false;
  if (connection == other.connection) return true;
  return local && pid != 0 && pid == other.pid && started == other.started;
}

LeaseHolder Claimant::as_holder() const {
  LeaseHolder holder;
  holder.name = name;
  if (local) {
    holder.uid = uid;
    if (pid != 0) holder.pid = pid;
  }
  return holder;
}

std::string_view description_of(LeaseEnd end) {
  switch (end) {
    case LeaseEnd::kReleased: return "its holder gave it back";
    case LeaseEnd::kDisconnected: return "the connection that made it was closed";
    case LeaseEnd::kProcessDied: return "its process ended";
    case LeaseEnd::kSilent: return "its heartbeats stopped";
    case LeaseEnd::kGpuLost: return "a GPU of it was lost";
    case LeaseEnd::kRevoked: return "root took it away";
    case LeaseEnd::kTakenAway: return "its user or an operator took it away";
    case LeaseEnd::kOtherUser: return "another user's process runs on a GPU of it";
    case LeaseEnd::kAgentStop: return "the agent is stopping";
    case LeaseEnd::kNoJournal: return "it could not begin";
  }
  return "";
}

LeaseInfo Lease::info(Nanoseconds now) const {
  LeaseInfo info;
  info.id = id;
  info.holder = holder.as_holder();
  info.gpus = gpus;
  info.may_set = may_set;
  info.heartbeat_timeout = heartbeat_timeout;
  info.binding = binding;
  info.purpose = purpose;
  info.job = job;
  info.rank = rank;
  info.shared = shared;
  info.age = to_seconds(now - granted);
  info.settings = settings;
  return info;
}

bool Lease::belongs_to(const Claimant& who) const {
  return holder.same_process(who) || (shared && holder.local && holder.same_user(who));
}

GpuSettings Lease::settings_of(std::size_t gpu) const {
  const auto found = settings.find(gpu);
  return found == settings.end() ? GpuSettings{} : found->second;
}

SettingsChange Lease::own_resets(std::size_t gpu, SettingsChange change, bool lifts) const {
  const GpuSettings set = settings_of(gpu);
  if (change.sm_clocks && !*change.sm_clocks && !set.sm_clocks) change.sm_clocks.reset();
  if (change.memory_clocks && !*change.memory_clocks && !set.memory_clocks) change.memory_clocks.reset();
  if (change.power_limit && !*change.power_limit && !set.power_limit && !lifts) change.power_limit.reset();
  return change;
}

bool AccessRules::allows(std::size_t gpu, const Claimant& who) const {
  if (!who.local) return remote;
  if (who.is_root()) return true;
  const auto own = of_gpu.find(gpu);
  if (own != of_gpu.end()) return own->second.count(who.uid) != 0;
  return !everywhere || everywhere->count(who.uid) != 0;
}

bool AccessRules::may_slow_others(const Claimant& who) const { return slow_others || !who.local || who.is_root(); }

bool AccessRules::may_end_all(const Claimant& who) const {
  return who.local ? who.is_root() : remote && remote_ends_leases;
}

LeaseTable::LeaseTable(std::size_t gpu_count, AccessRules rules) : gpu_count_(gpu_count), rules_(std::move(rules)) {}

void LeaseTable::check_gpu(std::size_t gpu, const Claimant& who) const {
  if (gpu >= gpu_count_) {
    throw LeaseRefused(Reason::kNoSuchGpu, fmt::format("there is no GPU {}; this node has {}", gpu, gpu_count_));
  }
  if (!who.local && !rules_.remote) {
    throw LeaseRefused(Reason::kForbidden,
                       rules_.remote_lacks_token
                           ? "over TCP nothing may be set, because this agent has no token: start it with --token-file "
                             "and send the token, or come through its Unix socket"
                           : "over TCP nothing may be set: the agent's configuration says so (access.remote)");
  }
  if (!rules_.allows(gpu, who)) {
    throw LeaseRefused(Reason::kForbidden,
                       fmt::format("{} may not set GPU {}: the agent's configuration gives it to others",
                                   who.as_holder().text(), gpu));
  }
}

void LeaseTable::check_cap(std::size_t gpu, const Claimant& who) const {
  check_gpu(gpu, who);
  if (rules_.may_slow_others(who)) return;
  throw LeaseRefused(Reason::kForbidden,
                     "a power limit that outlasts its lease slows other users' processes: only root states or lifts "
                     "one, and who comes over TCP with the token, unless the agent's configuration allows it to "
                     "everybody (access.slow_others)");
}

void LeaseTable::check_not_barred(std::size_t gpu, const Claimant& who, Nanoseconds now) {
  std::erase_if(barred_, [&](const Barred& one) { return one.until <= now; });
  for (const Barred& one : barred_) {
    if (!one.who.same_process(who) || std::find(one.gpus.begin(), one.gpus.end(), gpu) == one.gpus.end()) continue;
    throw LeaseRefused(Reason::kForbidden,
                       fmt::format("a lease of GPU {} was taken away from {}; it may take the next one in {:.0f} s",
                                   gpu, who.as_holder().text(), std::ceil(to_seconds(one.until - now).value())));
  }
}

void LeaseTable::bar(const Lease& lease, Nanoseconds now) {
  const auto& settings = lease.settings;
  if (std::any_of(settings.begin(), settings.end(), [](const auto& one) { return one.second.lost_power_limit; }))
    return;
  std::erase_if(barred_,
                [&](const Barred& one) { return one.gpus == lease.gpus && one.who.same_process(lease.holder); });
  if (barred_.size() == kMostBarred) barred_.erase(barred_.begin());
  barred_.push_back({lease.holder, lease.gpus, now + to_nanoseconds(kBarred)});
}

Lease& LeaseTable::add(Lease lease, Nanoseconds now) {
  lease.id = random_digits(32);
  lease.granted = now;
  lease.heard = now;
  for (const std::size_t gpu : lease.gpus) by_gpu_[gpu] = lease.id;
  return leases_[lease.id] = std::move(lease);
}

const Lease& LeaseTable::grant(const LeaseRequest& request, const Claimant& who, Nanoseconds now) {
  for (const std::size_t gpu : request.gpus) {
    request.lost_power_limit ? check_cap(gpu, who) : check_gpu(gpu, who);
    check_not_barred(gpu, who, now);
  }
  if (request.binding == LeaseBinding::kProcess && (!who.local || who.pid == 0)) {
    throw LeaseRefused(Reason::kForbidden,
                       "a lease can be bound to a process only over the Unix socket and from a process that the agent "
                       "can see; bind it to its connection");
  }
  for (const std::size_t gpu : request.gpus) {
    const Lease* other = on_gpu(gpu);
    if (other == nullptr) continue;
    const LeaseHolder holder = other->holder.as_holder();
    throw LeaseRefused(Reason::kHeld, fmt::format("GPU {} is leased to {}", gpu, holder.text()), holder);
  }
  Lease lease;
  lease.holder = who;
  lease.gpus = request.gpus;
  lease.may_set = request.may_set;
  if (lease.may_set.empty()) lease.may_set.assign(std::begin(kAllKnobs), std::end(kAllKnobs));
  lease.heartbeat_timeout = request.heartbeat_timeout;
  lease.binding = request.binding;
  lease.purpose = request.purpose;
  lease.job = request.job;
  lease.rank = request.rank;
  lease.shared = request.shared;
  return add(std::move(lease), now);
}

void LeaseTable::prepare(const std::string& id) { leases_.at(id).preparing = true; }

void LeaseTable::begin(const std::string& id, Nanoseconds now) {
  Lease& lease = leases_.at(id);
  lease.preparing = false;
  lease.granted = lease.heard = now;
}

const Lease& LeaseTable::implicit(std::size_t gpu, const Claimant& who, const std::vector<Knob>& knobs, bool shared,
                                  Seconds timeout, Nanoseconds now) {
  check_gpu(gpu, who);
  check_not_barred(gpu, who, now);
  const auto held = by_gpu_.find(gpu);
  if (held != by_gpu_.end()) {
    Lease& lease = leases_.at(held->second);
    // A client of zeusd's interface may make a connection for every write: over TCP any connection of the user's will
    // do.
    const bool any_of_user = lease.implicit && (shared || !who.local) && lease.holder.same_user(who);
    if (!any_of_user && !lease.belongs_to(who)) {
      const LeaseHolder holder = lease.holder.as_holder();
      throw LeaseRefused(Reason::kHeld, fmt::format("GPU {} is leased to {}", gpu, holder.text()), holder);
    }
    check_may_set(lease, knobs);
    if (lease.implicit) lease.holder = who;  // the same holder, or the one that takes the lease over
    lease.heard = now;
    return lease;
  }
  Lease lease;
  lease.holder = who;
  lease.gpus = {gpu};
  lease.may_set.assign(std::begin(kAllKnobs), std::end(kAllKnobs));
  lease.heartbeat_timeout = timeout;
  lease.binding = LeaseBinding::kProcess;
  lease.purpose = "zeusd interface";
  lease.implicit = true;
  return add(std::move(lease), now);
}

Lease& LeaseTable::checked(const std::string& id, const Claimant& who) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) {
    for (const auto& [ended, why] : ended_) {
      if (ended == id) {
        throw LeaseRefused(Reason::kEnded, fmt::format("lease {} has ended: {}", id, description_of(why)));
      }
    }
    throw LeaseRefused(Reason::kNoSuchLease, fmt::format("there is no lease {}", id));
  }
  Lease& lease = found->second;
  if (!lease.belongs_to(who)) {
    const LeaseHolder holder = lease.holder.as_holder();
    const bool may_share = lease.holder.local && lease.holder.same_user(who);
    throw LeaseRefused(
        Reason::kForbidden,
        fmt::format(
            "lease {} belongs to {}{}", id, holder.text(),
            may_share ? "; a lease that other processes of the user may change is taken with \"shared\": true" : ""),
        holder);
  }
  return lease;
}

const Lease& LeaseTable::heard_from(const std::string& id, const Claimant& who, Nanoseconds now) {
  Lease& lease = checked(id, who);
  lease.heard = now;
  return lease;
}

void LeaseTable::check_may_set(const Lease& lease, const std::vector<Knob>& knobs) {
  for (const Knob knob : knobs) {
    if (std::find(lease.may_set.begin(), lease.may_set.end(), knob) == lease.may_set.end()) {
      throw LeaseRefused(Reason::kForbidden, fmt::format("lease {} was not asked for {}", lease.id, name_of(knob)));
    }
  }
}

const Lease& LeaseTable::check_write(const std::string& id, std::size_t gpu, const std::vector<Knob>& knobs,
                                     const Claimant& who, Nanoseconds now) {
  Lease& lease = checked(id, who);
  if (std::find(lease.gpus.begin(), lease.gpus.end(), gpu) == lease.gpus.end()) {
    throw LeaseRefused(Reason::kForbidden, fmt::format("lease {} does not cover GPU {}", id, gpu));
  }
  check_may_set(lease, knobs);
  lease.heard = now;
  return lease;
}

const Lease& LeaseTable::check_release(const std::string& id, const Claimant& who) const {
  const Lease* lease = find(id);
  if (lease != nullptr && may_end(*lease, who)) return *lease;
  return const_cast<LeaseTable*>(this)->checked(id, who);
}

void LeaseTable::touch(const std::string& id, Nanoseconds now) {
  const auto found = leases_.find(id);
  if (found != leases_.end()) found->second.heard = now;
}

void LeaseTable::note_alone(const std::string& id, std::size_t gpu) {
  const auto found = leases_.find(id);
  if (found != leases_.end()) found->second.alone.insert(gpu);
}

void LeaseTable::note_change(const std::string& id, std::size_t gpu, const SettingsChange& change) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  GpuSettings& settings = found->second.settings[gpu];
  if (change.sm_clocks) settings.sm_clocks = *change.sm_clocks;
  if (change.memory_clocks) settings.memory_clocks = *change.memory_clocks;
  if (change.power_limit) settings.power_limit = *change.power_limit;
  if (change.lost_power_limit) settings.lost_power_limit = *change.lost_power_limit;
  if (settings.all_default()) found->second.alone.erase(gpu);  // others may have come before it is set again
}

std::optional<Lease> LeaseTable::end(const std::string& id, LeaseEnd why) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  Lease lease = std::move(found->second);
  leases_.erase(found);
  for (const std::size_t gpu : lease.gpus) by_gpu_.erase(gpu);
  ended_.emplace_back(lease.id, why);  // `id` may have been of the erased one
  if (ended_.size() > kRememberedEnds) ended_.pop_front();
  return lease;
}

bool LeaseTable::may_end(const Lease& lease, const Claimant& who) const {
  return lease.belongs_to(who) || (lease.holder.local && lease.holder.same_user(who)) || rules_.may_end_all(who);
}

LeaseInfo LeaseTable::info_for(const Lease& lease, const Claimant& reader, Nanoseconds now) const {
  LeaseInfo shown = lease.info(now);
  if (!may_end(lease, reader)) shown.id.clear();
  return shown;
}

const Lease* LeaseTable::find(const std::string& id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

const Lease* LeaseTable::on_gpu(std::size_t gpu) const {
  const auto found = by_gpu_.find(gpu);
  return found == by_gpu_.end() ? nullptr : find(found->second);
}

std::vector<const Lease*> LeaseTable::all() const {
  std::vector<const Lease*> leases;
  for (const auto& [id, lease] : leases_) leases.push_back(&lease);
  return leases;
}

std::vector<std::string> LeaseTable::of_connection(std::uint64_t connection) const {
  std::vector<std::string> ids;
  for (const auto& [id, lease] : leases_) {
    if (lease.binding == LeaseBinding::kConnection && lease.holder.connection == connection) ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> LeaseTable::expired(Nanoseconds now) const {
  std::vector<std::string> ids;
  for (const auto& [id, lease] : leases_) {
    if (is_timed(lease) && deadline_of(lease) <= now) ids.push_back(id);
  }
  return ids;
}

std::optional<Nanoseconds> LeaseTable::next_deadline() const {
  std::optional<Nanoseconds> next;
  for (const auto& [id, lease] : leases_) {
    if (!is_timed(lease)) continue;
    if (!next || deadline_of(lease) < *next) next = deadline_of(lease);
  }
  return next;
}

}  // namespace flyball
