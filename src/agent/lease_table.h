// The rules of leases, which say who may set which GPU. They use no sockets and no threads, and are given all times.
//
// A lease covers one or more GPUs; a GPU has at most one lease. A lease ends when it is given back, when its connection
// or its process ends, or when its holder has not been heard from for its heartbeat time-out; the caller finds out
// which of these has happened, and calls end(). A lease belongs to the process that took it, and has an identifier that
// nobody guesses (128 random bits); it may be shared with the user's other processes. The caller passes in all times,
// as nanoseconds of one monotonic clock. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "base/units.h"
#include "wire/agent_messages.h"

namespace flyball {

// The process or the client that makes a request.
struct Claimant {
  bool local = false;  // whether the kernel vouches for uid and pid
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;  // as this agent sees it, so that no two containers share one; 0: the agent does not see the process
  std::uint64_t started =
      0;  // of the process, in the kernel's ticks, to tell it from a later one with the same number; 0: unknown
  std::uint64_t connection = 0;
  std::string name;  // the process's name, or the address

  [[nodiscard]] bool is_root() const { return local && uid == 0; }
  [[nodiscard]] bool same_user(const Claimant& other) const;  // over TCP, all who have shown the token are one user
  // Over TCP, and where the agent does not see the process, only requests of one connection count as the same process.
  [[nodiscard]] bool same_process(const Claimant& other) const;
  [[nodiscard]] LeaseHolder as_holder() const;
};

// Why a lease ended.
enum class LeaseEnd {
  kReleased,      // its holder gave it back
  kDisconnected,  // the connection that made it closed
  kProcessDied,
  kSilent,     // no heartbeat in time
  kGpuLost,    // one of its GPUs fell off the bus
  kRevoked,    // root took it away
  kTakenAway,  // its user or an operator did, from another process
  kOtherUser,  // another user's process came to one of its GPUs
  kAgentStop,  // the agent is stopping
  kNoJournal,  // it could not be recorded, or a GPU did not answer, so it never began
};
template <>
inline constexpr auto kNamesOf<LeaseEnd> = name_list("released", "disconnected", "process_died", "silent", "gpu_lost",
                                                     "revoked", "taken_away", "other_user", "agent_stop", "not_begun");
[[nodiscard]] std::string_view description_of(LeaseEnd end);  // "its heartbeats stopped"

class LeaseRefused : public Error {
 public:
  enum class Reason {
    kNoSuchGpu,
    kNoSuchLease,
    kEnded,      // the lease was there once
    kForbidden,  // this user or this connection may not do it
    kHeld,       // somebody else has the GPU
  };
  LeaseRefused(Reason reason, const std::string& what, std::optional<LeaseHolder> holder = {})
      : Error(what), reason_(reason), holder_(std::move(holder)) {}

  [[nodiscard]] Reason reason() const { return reason_; }
  [[nodiscard]] const std::optional<LeaseHolder>& holder() const { return holder_; }  // of what is in the way

 private:
  Reason reason_;
  std::optional<LeaseHolder> holder_;
};

struct Lease {
  std::string id;
  Claimant holder;
  std::vector<std::size_t> gpus;
  std::vector<Knob> may_set;
  Seconds heartbeat_timeout;  // 0: none
  LeaseBinding binding = LeaseBinding::kConnection;
  std::string purpose;
  std::string job;  // LeaseRequest::job
  std::optional<std::int64_t> rank;
  bool shared = false;     // with the other processes of the user
  bool implicit = false;   // made by a write through zeusd's interface
  bool preparing = false;  // asked for and not granted yet: no heartbeat is due
  Nanoseconds granted = 0;
  Nanoseconds heard = 0;
  std::map<std::size_t, GpuSettings> settings;
  std::set<std::size_t> alone;  // GPUs on which no process of another user was found

  [[nodiscard]] LeaseInfo info(Nanoseconds now) const;
  [[nodiscard]] bool belongs_to(const Claimant& who) const;  // who may change and end it
  [[nodiscard]] GpuSettings settings_of(std::size_t gpu) const;
  // Returns the change without the resets of what the lease has not set: a user's reset does not undo what an operator
  // has locked. With `lifts` that of the power limit stays, since it is to lift a cap.
  [[nodiscard]] SettingsChange own_resets(std::size_t gpu, SettingsChange change, bool lifts) const;
};

// Which users may lease which GPU.
struct AccessRules {
  std::optional<std::set<uid_t>> everywhere;      // none: everybody may lease
  std::map<std::size_t, std::set<uid_t>> of_gpu;  // in place of `everywhere`, for these GPUs
  bool slow_others = false;                       // whether they may set a GPU on which another user's process runs
  bool remote = true;                             // whether TCP clients (who have shown the token) may
  bool remote_ends_leases = false;                // whether they may end other clients' leases
  bool remote_lacks_token = false;  // why `remote` is false: the agent has no token that a client could show
  [[nodiscard]] bool allows(std::size_t gpu, const Claimant& who) const;  // root always may
  // Root may, and who comes over TCP with the token, which is the operator's permission.
  [[nodiscard]] bool may_slow_others(const Claimant& who) const;
  // Whether they may end other users' leases: root, and who comes over TCP with the token where the rules say so.
  [[nodiscard]] bool may_end_all(const Claimant& who) const;
};

class LeaseTable {
 public:
  // How long a process from which an operator took a lease gets none for the same GPUs: trainers would take the next
  // one within milliseconds.
  static constexpr Seconds kBarred{600.0};

  LeaseTable(std::size_t gpu_count, AccessRules rules);

  // The functions down to check_release() throw LeaseRefused.
  const Lease& grant(const LeaseRequest& request, const Claimant& who, Nanoseconds now);
  // Between prepare() and begin() no heartbeat is due, since the holder has to wait while the agent writes its journal.
  void prepare(const std::string& id);
  void begin(const std::string& id, Nanoseconds now);
  // Returns the lease for a write that names none: the one under which `who` may set this GPU, or a new one. With
  // `shared`, another process of the same user takes an implicit lease over. `timeout` is for holders whose process
  // cannot be watched.
  const Lease& implicit(std::size_t gpu, const Claimant& who, const std::vector<Knob>& knobs, bool shared,
                        Seconds timeout, Nanoseconds now);
  // Takes a heartbeat, which counts as a sign of life.
  const Lease& heard_from(const std::string& id, const Claimant& who, Nanoseconds now);
  // Returns the lease if `who` may change these knobs now. The call counts as a sign of life, too.
  const Lease& check_write(const std::string& id, std::size_t gpu, const std::vector<Knob>& knobs, const Claimant& who,
                           Nanoseconds now);
  // Throws LeaseRefused unless `who` may leave a cap on the GPU, which slows whoever comes there after the lease.
  void check_cap(std::size_t gpu, const Claimant& who) const;
  // Returns the lease if `who` may end it.
  const Lease& check_release(const std::string& id, const Claimant& who) const;
  // Keeps the lease's process from its GPUs for kBarred, as long as this table lives. Not where the lease has stated a
  // limit for its loss: that is how those who keep a budget hold GPUs low, and they are to come back.
  void bar(const Lease& lease, Nanoseconds now);

  void touch(const std::string& id, Nanoseconds now);  // a sign of life that the agent itself has seen
  void note_alone(const std::string& id, std::size_t gpu);
  void note_change(const std::string& id, std::size_t gpu, const SettingsChange& change);
  // Ends a lease, frees its GPUs, and returns the lease as it was; none where there is no such lease.
  std::optional<Lease> end(const std::string& id, LeaseEnd why);

  [[nodiscard]] const AccessRules& rules() const { return rules_; }
  [[nodiscard]] const Lease* find(const std::string& id) const;
  [[nodiscard]] const Lease* on_gpu(std::size_t gpu) const;
  // Its holder and its user's other processes may end a lease, and those who may end all.
  [[nodiscard]] bool may_end(const Lease& lease, const Claimant& who) const;
  // Returns what `reader` may see of it: without the identifier, unless they may end it.
  [[nodiscard]] LeaseInfo info_for(const Lease& lease, const Claimant& reader, Nanoseconds now) const;
  [[nodiscard]] std::vector<const Lease*> all() const;
  [[nodiscard]] std::vector<std::string> of_connection(std::uint64_t connection) const;  // bound to it

  [[nodiscard]] std::vector<std::string> expired(Nanoseconds now) const;
  [[nodiscard]] std::optional<Nanoseconds> next_deadline() const;

 private:
  static void check_may_set(const Lease& lease, const std::vector<Knob>& knobs);  // throws LeaseRefused
  void check_gpu(std::size_t gpu, const Claimant& who) const;
  void check_not_barred(std::size_t gpu, const Claimant& who, Nanoseconds now);
  Lease& checked(const std::string& id, const Claimant& who);
  Lease& add(Lease lease, Nanoseconds now);

  struct Barred {
    Claimant who;
    std::vector<std::size_t> gpus;
    Nanoseconds until;
  };

  std::size_t gpu_count_;
  AccessRules rules_;
  std::map<std::string, Lease> leases_;
  std::map<std::size_t, std::string> by_gpu_;
  std::vector<Barred> barred_;
  std::deque<std::pair<std::string, LeaseEnd>> ended_;  // the latest ends, so that later requests can be told why
};

}  // namespace flyball
