// Keeps the leases in force: joins the rules of the lease table to the GPUs' control threads, the journal, the holders'
// processes and the time. This file knows nothing of HTTP but the error type. The keeper may be used in the loop's
// thread only; every callback is called there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/gpu_control.h"
#include "agent/gpu_rules.h"
#include "agent/journal.h"
#include "agent/lease_table.h"
#include "agent/leftovers.h"
#include "driver/gpu.h"
#include "net/event_loop.h"

namespace flyball {

struct LeaseCounts {
  std::uint64_t granted = 0;
  std::uint64_t refused = 0;
  std::map<LeaseEnd, std::uint64_t> ended;
  std::uint64_t changes = 0;          // settings made
  std::uint64_t failed_changes = 0;   // settings that failed
  std::uint64_t restores = 0;         // GPUs brought back to what held before
  std::uint64_t failed_restores = 0;  // attempts that failed (and were tried again)
};

class LeaseKeeper {
 public:
  using Done = std::function<void(std::exception_ptr)>;
  using Granted = std::function<void(std::exception_ptr, const LeaseInfo&)>;

  LeaseKeeper(EventLoop& loop, std::vector<std::shared_ptr<GpuDevice>> gpus, std::shared_ptr<const Journal> journal,
              AccessRules access, NodeRules rules, ControlOptions options);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Restores the GPUs that an earlier agent left changed, as the journal says. Must be called once, before anything
  // else.
  void recover();

  // Grants a lease, which is in the journal before `granted` is called.
  void grant(const LeaseRequest& request, const Claimant& who, const Granted& granted);
  [[nodiscard]] LeaseInfo heartbeat(const std::string& id, const Claimant& who);  // throws LeaseRefused
  void change(const std::string& id, std::size_t gpu, const SettingsChange& change, const Claimant& who, Done done);
  // Ends a lease, and calls `done` once its GPUs are restored, or with DeviceError kTimeout where that takes long;
  // restoring then goes on.
  void release(const std::string& id, const Claimant& who, Done done);

  // Makes a change for zeusd's interface, under a lease that `who` has on the GPU or under a new one. A new lease lasts
  // as long as the process or, where no process can be watched, for `remote_hold` from the last write on. With `shared`
  // the user's other processes may use it. Throws LeaseRefused at once.
  void change_without_lease(std::size_t gpu, const SettingsChange& change, const Claimant& who, Seconds remote_hold,
                            bool shared, Done done);
  // Lets the power limit of a capped GPU go back to what held before the cap, or to what a lease has set since. Throws
  // LeaseRefused at once where `who` may not.
  void lift_cap(std::size_t gpu, const Claimant& who, Done done);
  // Makes a privileged call that no end of a lease undoes (persistence mode), for anyone who may set this GPU now.
  void call_unleased(std::size_t gpu, const Claimant& who, std::function<void(GpuDevice&)> call, Done done);

  void connection_closed(std::uint64_t connection);
  // Ends every lease, and calls `done` once all GPUs are restored, or after `most`, with the GPUs that are not.
  void end_all(LeaseEnd why, Seconds most, std::function<void(std::vector<std::size_t> left)> done);

  [[nodiscard]] std::size_t gpu_count() const { return gpus_.size(); }
  [[nodiscard]] const GpuDevice& device(std::size_t gpu) const;
  [[nodiscard]] GpuControl& control(std::size_t gpu);
  [[nodiscard]] GpuHealth health(std::size_t gpu) const;
  [[nodiscard]] std::string trouble(std::size_t gpu) const;  // in words; empty when well
  // In the next two, the identifiers of leases that are not `reader`'s are left out.
  [[nodiscard]] std::vector<LeaseInfo> leases(const Claimant& reader) const;
  [[nodiscard]] std::optional<LeaseInfo> lease_on(std::size_t gpu, const Claimant& reader) const;
  [[nodiscard]] std::optional<LeaseInfo> find(const std::string& id) const;  // for anyone who knows `id`
  [[nodiscard]] std::size_t lease_count() const { return table_.all().size(); }
  [[nodiscard]] std::size_t leases_of(const Claimant& user) const;
  // Returns the first lease that the connection or its process holds; empty where there is none.
  [[nodiscard]] std::string held_by(const Claimant& who) const;
  [[nodiscard]] const LeaseCounts& counts() const { return counts_; }
  [[nodiscard]] const GpuRules& rules(std::size_t gpu) const { return rules_.of(gpu); }
  [[nodiscard]] bool idle() const;   // no lease, nothing to restore, no call that hangs
  void note_alive(std::size_t gpu);  // notes that a call has worked, so that the GPU is there; restores it where needed

  // Sets the function that is told of connections that hold a lease (true) or no longer do (false).
  void on_pin(std::function<void(std::uint64_t connection, bool pinned)> action) { pin_ = std::move(action); }

 private:
  struct Gpu;
  struct Watch;
  struct Waiter;

  void end(const std::string& id, LeaseEnd why);
  // Restores what an earlier agent has left on a GPU, once its UUID is known. No lease is granted on it before that.
  void settle(std::size_t gpu);
  // Starts to watch the process that asks; returns null where there is none to watch. Throws LeaseRefused where the
  // process has ended, and where it cannot be watched although nothing else would end its lease (`needed`).
  [[nodiscard]] static std::shared_ptr<Watch> open_watch(const Claimant& who, bool needed);
  void watch(const std::string& id, std::shared_ptr<Watch> process);
  [[nodiscard]] Author author(const Lease& lease, const Claimant& who) const;
  void answer_when_restored(const std::vector<std::size_t>& gpus, Done done);
  void arm_deadline();
  void look_for_expired(bool late);
  void look_for_hanging();
  void probe(std::size_t gpu);
  [[nodiscard]] bool must_be_alone(const Lease& lease) const;
  void restored(std::size_t gpu);
  void lost(std::size_t gpu, const DeviceError& why);
  void check_usable(std::size_t gpu) const;  // throws DeviceError
  void submit_change(const std::string& id, std::size_t gpu, const SettingsChange& change, const Claimant& who,
                     Done done);
  void wait_restored(const std::vector<std::size_t>& gpus, Seconds most,
                     std::function<void(std::vector<std::size_t> left)> done);

  EventLoop& loop_;
  ControlOptions options_;
  std::shared_ptr<const Journal> journal_;
  NodeRules rules_;
  LeaseTable table_;
  LeaseCounts counts_;
  std::function<void(std::uint64_t, bool)> pin_;
  std::map<std::string, std::shared_ptr<Watch>> watches_;  // processes, by lease
  std::vector<std::shared_ptr<Waiter>> waiters_;
  Leftovers leftovers_;                          // of an earlier agent, for GPUs that are not there or not yet opened
  std::map<std::string, int> writes_under_way_;  // by lease
  EventLoop::Handle deadline_;
  Nanoseconds deadline_at_ = 0;
  EventLoop::Handle tick_;
  int probe_tick_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::unique_ptr<Gpu>> gpus_;  // last, since its threads post to the members above
};

}  // namespace flyball
