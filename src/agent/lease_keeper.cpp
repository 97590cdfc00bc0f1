// A lease's journal entries are written by the controls of its GPUs before it is granted. Its end comes from a pidfd
// of the holder (readable once the process has ended), from the server (the connection closed), from one timer set to
// the table's next deadline, or from a probe that every GPU gets each 2 s. A loop that finds itself late first lets
// waiting heartbeats in, and judges silence afterwards.
#include "agent/lease_keeper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/change_settings.h"
#include "agent/log.h"
#include "agent/processes.h"
#include "base/monotonic_time.h"
#include "net/http.h"

namespace flyball {
namespace {

constexpr Seconds kLeaseTick{0.25};
constexpr int kTicksPerProbe = 8;  // a GPU that nobody asks is asked this often, to learn that it is lost
// A loop that was held up (by a stopped machine, a starved processor) has heartbeats waiting in its sockets. It reads
// them before it judges a lease that is late by more than this.
constexpr Nanoseconds kLate = 50'000'000;

// The whole identifier is for those who may end the lease; others read the log, too.
std::string short_id(const std::string& id) { return id.substr(0, 8); }

// A holder that gives its lease back, or has it taken away by root, is not lost. An agent that stops cannot tell.
Ending ending_of(LeaseEnd why) {
  const bool given_back = why == LeaseEnd::kReleased || why == LeaseEnd::kRevoked || why == LeaseEnd::kOtherUser;
  return given_back ? Ending::kReleased : Ending::kLost;
}

}  // namespace

struct LeaseKeeper::Gpu {
  std::shared_ptr<GpuDevice> device;
  std::unique_ptr<GpuControl> control;
  std::optional<DeviceError> lost;  // the driver's error; without a value the GPU is there
  bool settled = false;             // its UUID is known, and its entry in the journal, if any, is being restored
  bool hanging = false;
  bool probing = false;
};

struct LeaseKeeper::Watch {
  explicit Watch(int process) : descriptor(process) {}
  ~Watch() {
    handle.reset();
    ::close(descriptor);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int descriptor;
  EventLoop::Handle handle;
};

struct LeaseKeeper::Waiter {
  std::vector<std::size_t> left;
  std::function<void(std::vector<std::size_t>)> done;
  EventLoop::Handle timer;
};

LeaseKeeper::LeaseKeeper(EventLoop& loop, std::vector<std::shared_ptr<GpuDevice>> gpus,
                         std::shared_ptr<const Journal> journal, AccessRules access, NodeRules rules,
                         ControlOptions options)
    : loop_(loop),
      options_(options),
      journal_(std::move(journal)),
      rules_(std::move(rules)),
      table_(gpus.size(), std::move(access)),
      leftovers_(journal_) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    auto gpu = std::make_unique<Gpu>();
    gpu->device = std::move(gpus[i]);
    if (gpu->device->identity().uuid.empty()) {
      gpu->lost.emplace(DeviceFault::kLost, gpu->device->label(), "its driver has not opened it yet");
    }
    ControlEvents events;
    const std::weak_ptr<bool> alive = alive_;
    events.restored = [this, alive, i] {
      if (alive.lock()) restored(i);
    };
    events.lost = [this, alive, i](const DeviceError& why) {
      if (alive.lock()) lost(i, why);
    };
    events.restore_failed = [this, alive, i](const std::string& why) {
      if (!alive.lock()) return;
      ++counts_.failed_restores;
      log_event(LogLevel::kError, "restore_failed", {{"gpu", fmt::to_string(i)}, {"error", why}, {"next", "retry"}});
    };
    events.limit_left = [i](Watts now) {
      log_event(
          LogLevel::kNotice, "power_limit_left",
          {{"gpu", fmt::to_string(i)}, {"power_limit_w", fmt::format("{:g}", now.value())}, {"set_by", "others"}});
    };
    gpu->control =
        std::make_unique<GpuControl>(gpu->device, journal_, loop_, options_, std::move(events), rules_.of(i).outside);
    gpus_.push_back(std::move(gpu));
  }
  tick_ = loop_.every(kLeaseTick, [this] { look_for_hanging(); });
}

LeaseKeeper::~LeaseKeeper() = default;

const GpuDevice& LeaseKeeper::device(std::size_t gpu) const { return *gpus_.at(gpu)->device; }
GpuControl& LeaseKeeper::control(std::size_t gpu) { return *gpus_.at(gpu)->control; }

void LeaseKeeper::recover() {
  std::vector<std::string> uuids;
  for (const auto& gpu : gpus_) uuids.push_back(gpu->device->identity().uuid);
  leftovers_.read(uuids);
  for (std::size_t i = 0; i < gpus_.size(); ++i) settle(i);
  leftovers_.log_unclaimed();
}

void LeaseKeeper::settle(std::size_t gpu) {
  Gpu& one = *gpus_[gpu];
  const std::string uuid = one.device->identity().uuid;
  if (one.settled || uuid.empty()) return;
  one.settled = true;
  const auto entry = leftovers_.claim(gpu, uuid);
  if (!entry) return;
  log_event(LogLevel::kNotice, "restoring_after_crash", {{"gpu", fmt::to_string(gpu)}, {"holder", entry->holder}});
  one.control->restore_found(*entry);
}

// --- Leases --------------------------------------------------------------------------------------------------------

void LeaseKeeper::check_usable(std::size_t gpu) const {
  const Gpu& one = *gpus_[gpu];
  if (one.lost) throw DeviceError(*one.lost);
  if (!one.settled) {  // a lease would take a killed one's settings for those before it, and overwrite its entry
    throw DeviceError(DeviceFault::kLost, one.device->label(),
                      "the settings that an earlier agent left there are not restored yet",
                      "try again in some seconds");
  }
  if (one.hanging) {
    throw DeviceError(DeviceFault::kTimeout, one.device->label(), "a call of its driver hangs", "take another GPU");
  }
}

std::shared_ptr<LeaseKeeper::Watch> LeaseKeeper::open_watch(const Claimant& who, bool needed) {
  if (!who.local || who.pid == 0) return nullptr;
  const int descriptor = open_process(who.pid);
  if (descriptor < 0 && errno != ESRCH) {
    if (!needed) return nullptr;  // no pidfd (an old kernel): the connection and the heartbeats remain
    throw LeaseRefused(
        LeaseRefused::Reason::kForbidden,
        "the process that asks cannot be watched, and nothing else would undo this setting; hold a lease "
        "through /v1/leases");
  }
  auto process = descriptor < 0 ? nullptr : std::make_shared<Watch>(descriptor);
  // The process's number may be another's by now.
  if (!process || who.started == 0 || facts_of(who.pid).started != who.started) {
    throw LeaseRefused(LeaseRefused::Reason::kForbidden, "the process that asks has ended");
  }
  return process;
}

void LeaseKeeper::watch(const std::string& id, std::shared_ptr<Watch> process) {
  watches_.erase(id);
  if (!process) return;
  process->handle = loop_.when_readable(process->descriptor, [this, id] { end(id, LeaseEnd::kProcessDied); });
  watches_[id] = std::move(process);
}

void LeaseKeeper::grant(const LeaseRequest& request, const Claimant& who, const Granted& granted) {
  std::string id;
  SettingsChange stated;
  if (request.lost_power_limit) stated.lost_power_limit = request.lost_power_limit;
  try {
    const Lease& lease = table_.grant(request, who, monotonic_now());
    id = lease.id;
    for (const std::size_t gpu : request.gpus) {
      check_usable(gpu);
      check_bounds(rules_.of(gpu).bounds, gpu, stated);
    }
    watch(id, open_watch(lease.holder, false));
    table_.prepare(id);
  } catch (const Error&) {
    ++counts_.refused;
    if (!id.empty()) table_.end(id, LeaseEnd::kNoJournal);
    throw;
  }
  if (pin_ && request.binding == LeaseBinding::kConnection) pin_(who.connection, true);

  struct Preparing {
    std::size_t left;
    std::exception_ptr error;
  };
  auto preparing = std::make_shared<Preparing>(Preparing{request.gpus.size(), nullptr});
  const std::string holder = who.as_holder().text();
  for (const std::size_t gpu : request.gpus) {
    gpus_[gpu]->control->write(
        stated, author(*table_.find(id), who),
        [stated](const GpuDevice& device, const GpuSettings& /*before*/) { refuse_impossible(device, stated); }, {},
        [this, preparing, id, stated, holder, granted](const std::exception_ptr& error) {
          if (error) preparing->error = error;
          if (--preparing->left > 0) return;
          const Lease* lease = table_.find(id);
          if (lease == nullptr && !preparing->error) {
            preparing->error = std::make_exception_ptr(HttpError(409, "the lease ended before it began"));
          }
          if (preparing->error) {
            ++counts_.refused;
            end(id, LeaseEnd::kNoJournal);
            return granted(preparing->error, {});
          }
          ++counts_.granted;
          table_.begin(id, monotonic_now());
          if (stated.lost_power_limit) {
            for (const std::size_t one : lease->gpus) table_.note_change(id, one, stated);
          }
          arm_deadline();
          log_event(LogLevel::kInfo, "lease_granted",
                    {{"lease", short_id(id)},
                     {"gpus", fmt::format("{}", fmt::join(lease->gpus, ","))},
                     {"holder", holder},
                     {"purpose", lease->purpose}});
          granted(nullptr, lease->info(monotonic_now()));
        });
  }
}

LeaseInfo LeaseKeeper::heartbeat(const std::string& id, const Claimant& who) {
  return table_.heard_from(id, who, monotonic_now()).info(monotonic_now());
}

void LeaseKeeper::submit_change(const std::string& id, std::size_t gpu, const SettingsChange& wanted,
                                const Claimant& who, Done done) {
  const Lease& asking = *table_.find(id);
  const Author by = author(asking, who);
  const bool resets_all = who.is_root() || writes_under_way_.count(id) != 0;
  const bool lifts = by.may_end_cap && gpus_[gpu]->control->cap();
  const SettingsChange change = resets_all ? wanted : asking.own_resets(gpu, wanted, lifts);
  ++writes_under_way_[id];
  const bool looks_around = must_be_alone(asking) && asking.alone.count(gpu) == 0 && sets_something(change);
  const auto applied = std::make_shared<SettingsChange>();
  gpus_[gpu]->control->write(
      change, by,
      [change, looks_around, who](const GpuDevice& device, const GpuSettings& before) {
        if (looks_around) refuse_beside_others(device, who.uid);
        if (!who.is_root()) refuse_more_power(device, change, before);
        refuse_impossible(device, change);
      },
      [change, applied](GpuDevice& device, const GpuSettings& before) {
        change_settings(device, change, before, *applied);
      },
      [this, id, gpu, change, applied, looks_around, done = std::move(done)](const std::exception_ptr& error) {
        if (--writes_under_way_[id] == 0) writes_under_way_.erase(id);
        if (error) {
          ++counts_.failed_changes;
        } else {
          ++counts_.changes;
          if (looks_around) table_.note_alone(id, gpu);
        }
        table_.touch(id, monotonic_now());
        // A call that hangs may still come through; until its lease ends, what it asked for counts as set.
        bool hangs = false;
        try {
          if (error) std::rethrow_exception(error);
        } catch (const DeviceError& caught) {
          hangs = caught.fault() == DeviceFault::kTimeout;
        } catch (const std::exception&) {  // done() passes it on
        }
        table_.note_change(id, gpu, hangs ? change : *applied);
        const Lease* lease = table_.find(id);
        const bool over = lease != nullptr && lease->implicit && writes_under_way_.count(id) == 0 &&
                          std::all_of(lease->settings.begin(), lease->settings.end(),
                                      [](const auto& one) { return one.second.all_default(); });
        if (over) end(id, LeaseEnd::kReleased);
        done(error);
      });
}

Author LeaseKeeper::author(const Lease& lease, const Claimant& who) const {
  return {lease.holder.as_holder().text(), table_.rules().may_slow_others(who)};
}

void LeaseKeeper::change(const std::string& id, std::size_t gpu, const SettingsChange& change, const Claimant& who,
                         Done done) {
  const Lease& lease = table_.check_write(id, gpu, change.knobs(), who, monotonic_now());
  if (change.lost_power_limit && *change.lost_power_limit) table_.check_cap(gpu, lease.holder);
  check_bounds(rules_.of(gpu).bounds, gpu, change);
  submit_change(lease.id, gpu, change, lease.holder, std::move(done));
}

void LeaseKeeper::change_without_lease(std::size_t gpu, const SettingsChange& change, const Claimant& who,
                                       Seconds remote_hold, bool shared, Done done) {
  const bool watchable = who.local && who.pid != 0;
  std::string id;
  try {
    if (!watchable && remote_hold.value() <= 0) {
      throw LeaseRefused(LeaseRefused::Reason::kForbidden,
                         "without a process to watch nothing would undo this setting; hold a lease through /v1/leases, "
                         "or let the agent's configuration allow it for a limited time (zeusd_remote_hold)");
    }
    check_bounds(rules_.of(gpu).bounds, gpu, change);
    const Lease* held = table_.on_gpu(gpu);
    const bool is_new = held == nullptr;
    const bool goes_on =
        held != nullptr && (!held->implicit || (watches_.count(held->id) != 0 && held->holder.pid == who.pid &&
                                                held->holder.started == who.started));
    // The watch is opened before the lease is granted, since a lease that nobody watches would never end.
    auto process = watchable && !goes_on ? open_watch(who, true) : nullptr;
    const Lease& lease =
        table_.implicit(gpu, who, change.knobs(), shared, watchable ? Seconds(0) : remote_hold, monotonic_now());
    id = lease.id;
    if (!goes_on) watch(id, std::move(process));
    check_usable(gpu);
    if (is_new) {
      ++counts_.granted;
      log_event(sets_something(change) ? LogLevel::kInfo : LogLevel::kNotice, "lease_granted",
                {{"lease", short_id(id)},
                 {"gpus", fmt::to_string(gpu)},
                 {"holder", who.as_holder().text()},
                 {"via", "zeusd"}});
    }
  } catch (const Error&) {
    ++counts_.refused;
    const Lease* lease = table_.find(id);
    if (lease != nullptr && lease->implicit && lease->settings.empty()) end(id, LeaseEnd::kNoJournal);
    throw;
  }
  arm_deadline();
  submit_change(id, gpu, change, who, std::move(done));
}

void LeaseKeeper::call_unleased(std::size_t gpu, const Claimant& who, std::function<void(GpuDevice&)> call, Done done) {
  const Lease* lease = gpu < gpus_.size() ? table_.on_gpu(gpu) : nullptr;
  if (lease == nullptr) {
    // A lease that ends at once applies the table's own rules.
    LeaseRequest request;
    request.gpus = {gpu};
    const std::string id = table_.grant(request, who, monotonic_now()).id;  // a copy, which outlives the lease
    table_.end(id, LeaseEnd::kReleased);
  } else if (!lease->belongs_to(who)) {
    const LeaseHolder holder = lease->holder.as_holder();
    throw LeaseRefused(LeaseRefused::Reason::kHeld, fmt::format("GPU {} is leased to {}", gpu, holder.text()), holder);
  }
  check_usable(gpu);
  gpus_[gpu]->control->read(std::move(call), std::move(done));
}

void LeaseKeeper::release(const std::string& id, const Claimant& who, Done done) {
  const Lease& lease = table_.check_release(id, who);
  const bool own = lease.belongs_to(who);
  const std::vector<std::size_t> gpus = lease.gpus;
  if (!own) {
    log_event(LogLevel::kNotice, "lease_taken_away", {{"lease", short_id(id)}, {"by", who.as_holder().text()}});
    table_.bar(lease, monotonic_now());
  }
  end(id, own ? LeaseEnd::kReleased : who.is_root() ? LeaseEnd::kRevoked : LeaseEnd::kTakenAway);
  answer_when_restored(gpus, std::move(done));
}

void LeaseKeeper::lift_cap(std::size_t gpu, const Claimant& who, Done done) {
  table_.check_cap(gpu, who);
  check_usable(gpu);
  log_event(LogLevel::kNotice, "cap_lifted", {{"gpu", fmt::to_string(gpu)}, {"by", who.as_holder().text()}});
  const Lease* lease = table_.on_gpu(gpu);
  if (lease == nullptr) {
    gpus_[gpu]->control->restore(Ending::kLifted);
    return answer_when_restored({gpu}, std::move(done));
  }
  SettingsChange change;
  change.power_limit = lease->settings_of(gpu).power_limit;
  submit_change(lease->id, gpu, change, who, std::move(done));
}

void LeaseKeeper::answer_when_restored(const std::vector<std::size_t>& gpus, Done done) {
  wait_restored(gpus, options_.call_timeout, [this, done = std::move(done)](const std::vector<std::size_t>& left) {
    if (left.empty()) return done(nullptr);
    done(std::make_exception_ptr(DeviceError(DeviceFault::kTimeout, gpus_[left.front()]->device->label(),
                                             "the lease has ended, but the GPU is not yet at its default",
                                             "the agent goes on trying; see its log")));
  });
}

void LeaseKeeper::end(const std::string& id, LeaseEnd why) {
  watches_.erase(id);
  const std::optional<Lease> lease = table_.end(id, why);
  if (!lease) return;
  ++counts_.ended[why];
  const bool as_asked = why == LeaseEnd::kReleased || why == LeaseEnd::kAgentStop;
  log_event(as_asked ? LogLevel::kInfo : LogLevel::kNotice, "lease_ended",
            {{"lease", short_id(id)},
             {"why", std::string(name_of(why))},
             {"gpus", fmt::format("{}", fmt::join(lease->gpus, ","))},
             {"holder", lease->holder.as_holder().text()}});
  if (pin_ && lease->binding == LeaseBinding::kConnection && table_.of_connection(lease->holder.connection).empty()) {
    pin_(lease->holder.connection, false);
  }
  for (const std::size_t gpu : lease->gpus)
    gpus_[gpu]->control->restore(lease->preparing ? Ending::kNotBegun : ending_of(why));
}

void LeaseKeeper::connection_closed(std::uint64_t connection) {
  for (const std::string& id : table_.of_connection(connection)) end(id, LeaseEnd::kDisconnected);
}

void LeaseKeeper::end_all(LeaseEnd why, Seconds most, std::function<void(std::vector<std::size_t>)> done) {
  std::vector<std::string> ids;
  for (const Lease* lease : table_.all()) ids.push_back(lease->id);
  for (const std::string& id : ids) end(id, why);
  std::vector<std::size_t> every;
  for (std::size_t i = 0; i < gpus_.size(); ++i) every.push_back(i);
  wait_restored(every, most, std::move(done));
}

bool LeaseKeeper::idle() const {
  return table_.all().empty() && std::none_of(gpus_.begin(), gpus_.end(), [](const auto& gpu) {
           return gpu->hanging || gpu->control->restoring();
         });
}

std::vector<LeaseInfo> LeaseKeeper::leases(const Claimant& reader) const {
  std::vector<LeaseInfo> all;
  for (const Lease* lease : table_.all()) all.push_back(table_.info_for(*lease, reader, monotonic_now()));
  return all;
}

std::optional<LeaseInfo> LeaseKeeper::lease_on(std::size_t gpu, const Claimant& reader) const {
  const Lease* lease = table_.on_gpu(gpu);
  if (lease == nullptr) return std::nullopt;
  return table_.info_for(*lease, reader, monotonic_now());
}

std::optional<LeaseInfo> LeaseKeeper::find(const std::string& id) const {
  const Lease* lease = table_.find(id);
  if (lease == nullptr) return std::nullopt;
  return lease->info(monotonic_now());
}

std::size_t LeaseKeeper::leases_of(const Claimant& user) const {
  const auto all = table_.all();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const Lease* lease) { return lease->holder.same_user(user); }));
}

std::string LeaseKeeper::held_by(const Claimant& who) const {
  for (const Lease* lease : table_.all()) {
    if (lease->holder.same_process(who)) return lease->id;
  }
  return {};
}

// --- Time ----------------------------------------------------------------------------------------------------------

void LeaseKeeper::arm_deadline() {
  const auto next = table_.next_deadline();
  if (!next) return deadline_.reset();
  if (deadline_ && deadline_at_ <= *next) return;  // the timer wakes early, finds nothing, and is armed again
  deadline_at_ = *next;
  const Nanoseconds delay = std::max<Nanoseconds>(*next - monotonic_now(), 0);
  deadline_ = loop_.after(to_seconds(delay), [this] { look_for_expired(monotonic_now() - deadline_at_ > kLate); });
}

void LeaseKeeper::look_for_expired(bool late) {
  if (late) {
    deadline_ = loop_.after(to_seconds(kLate), [this] { look_for_expired(false); });
    return;
  }
  for (const std::string& id : table_.expired(monotonic_now())) {
    // A holder that waits for the agent's answer is not silent.
    if (writes_under_way_.count(id) != 0) {
      table_.touch(id, monotonic_now());
    } else {
      end(id, LeaseEnd::kSilent);
    }
  }
  deadline_.reset();
  arm_deadline();
}

// --- The GPUs' health ----------------------------------------------------------------------------------------------

void LeaseKeeper::look_for_hanging() {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = *gpus_[i];
    const bool hangs = gpu.control->call_age() > options_.call_timeout;
    if (hangs != std::exchange(gpu.hanging, hangs)) {
      log_event(hangs ? LogLevel::kError : LogLevel::kNotice, hangs ? "driver_hangs" : "driver_answers_again",
                {{"gpu", fmt::to_string(i)}});
    }
  }
  probe_tick_ = (probe_tick_ + 1) % kTicksPerProbe;
  if (probe_tick_ != 0) return;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (!std::exchange(gpus_[i]->probing, true)) probe(i);
  }
}

// Asks a GPU whether it is there, and whether another user has come to it since a lease set it.
void LeaseKeeper::probe(std::size_t gpu) {
  const Lease* lease = table_.on_gpu(gpu);
  const bool looks_around = lease != nullptr && must_be_alone(*lease) && !lease->settings_of(gpu).all_default();
  const std::string id = looks_around ? lease->id : std::string();
  const uid_t user = looks_around ? lease->holder.uid : 0;
  const auto other = std::make_shared<std::optional<std::string>>();
  gpus_[gpu]->control->read(
      [looks_around, user, other](GpuDevice& device) {
        static_cast<void>(device.power());
        if (looks_around) *other = other_user_on(device, user);
      },
      [this, gpu, id, other](const std::exception_ptr& error) {
        gpus_[gpu]->probing = false;
        if (!error) note_alive(gpu);
        if (error || !*other || table_.find(id) == nullptr) return;
        log_event(LogLevel::kNotice, "other_user_on_gpu", {{"gpu", fmt::to_string(gpu)}, {"process", **other}});
        end(id, LeaseEnd::kOtherUser);
      });
}

bool LeaseKeeper::must_be_alone(const Lease& lease) const { return !table_.rules().may_slow_others(lease.holder); }

void LeaseKeeper::note_alive(std::size_t gpu) {
  Gpu& one = *gpus_[gpu];
  if (std::exchange(one.lost, std::nullopt)) {
    log_event(LogLevel::kNotice, "gpu_back", {{"gpu", fmt::to_string(gpu)}, {"uuid", one.device->identity().uuid}});
    if (one.settled) one.control->restore(Ending::kLost);  // what this agent has touched
  }
  settle(gpu);  // what an earlier agent has touched, if the GPU's driver would not open it until now
}

void LeaseKeeper::restored(std::size_t gpu) {
  if (!gpus_[gpu]->lost) {
    ++counts_.restores;
    const auto cap = gpus_[gpu]->control->cap();
    log_event(cap ? LogLevel::kNotice : LogLevel::kInfo, cap ? "gpu_capped" : "gpu_at_default",
              {{"gpu", fmt::to_string(gpu)}});
    leftovers_.restored(gpu);
  }
  std::vector<std::shared_ptr<Waiter>> ready;
  for (const auto& waiter : waiters_) {
    std::erase(waiter->left, gpu);
    if (waiter->left.empty()) ready.push_back(waiter);
  }
  for (const auto& waiter : ready) {
    std::erase(waiters_, waiter);
    waiter->timer.reset();
    waiter->done({});
  }
}

void LeaseKeeper::lost(std::size_t gpu, const DeviceError& why) {
  Gpu& one = *gpus_[gpu];
  if (std::exchange(one.lost, why)) return;
  log_event(LogLevel::kError, "gpu_lost", {{"gpu", fmt::to_string(gpu)}, {"error", why.what()}});
  const Lease* lease = table_.on_gpu(gpu);
  if (lease != nullptr) end(std::string(lease->id), LeaseEnd::kGpuLost);
}

GpuHealth LeaseKeeper::health(std::size_t gpu) const {
  const Gpu& one = *gpus_.at(gpu);
  if (one.lost) return GpuHealth::kLost;
  if (one.hanging) return GpuHealth::kUnwell;
  return one.control->restoring() ? GpuHealth::kRestoring : GpuHealth::kWell;
}

std::string LeaseKeeper::trouble(std::size_t gpu) const {
  switch (health(gpu)) {
    case GpuHealth::kWell: return {};
    case GpuHealth::kLost: return gpus_[gpu]->lost->what();
    case GpuHealth::kUnwell:
      return fmt::format("a call of its driver has not returned for {:.0f} s", gpus_[gpu]->control->call_age().value());
    case GpuHealth::kRestoring: return "a lease has ended and its settings are being undone";
  }
  return {};
}

void LeaseKeeper::wait_restored(const std::vector<std::size_t>& gpus, Seconds most,
                                std::function<void(std::vector<std::size_t>)> done) {
  auto waiter = std::make_shared<Waiter>();
  for (const std::size_t gpu : gpus) {
    if (gpus_[gpu]->control->restoring()) waiter->left.push_back(gpu);
  }
  if (waiter->left.empty()) return done({});
  waiter->done = std::move(done);
  waiter->timer = loop_.after(most, [this, weak = std::weak_ptr(waiter)] {
    const auto late = weak.lock();
    if (!late) return;
    std::erase(waiters_, late);
    late->done(late->left);
  });
  waiters_.push_back(std::move(waiter));
}

}  // namespace flyball
