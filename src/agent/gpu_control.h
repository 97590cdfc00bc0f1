// Makes the calls to one GPU one after another in a thread of its own, so that a driver that hangs blocks this thread
// and nothing else.
//
// Writes keep the journal's rule: before a knob is first touched, an entry is on disk that names the knob and the value
// that it had. restore() brings back what held before, retries until that has worked, and only then removes the entry.
// A power limit that somebody else has set since the last call here is left as it is.
//
// A lease may state the power limit that the GPU gets if its holder is lost. It is in the journal until the lease ends;
// then restore() sets it, if it is below the limit that held before, and the entry stays as a Cap, with both limits,
// until the cap is lifted.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/journal.h"
#include "base/units.h"
#include "driver/gpu.h"
#include "net/event_loop.h"
#include "wire/agent_messages.h"

namespace flyball {

struct ControlOptions {
  Seconds call_timeout{1.0};  // after this time a caller is told that the driver hangs
  Seconds first_retry{0.02};  // wait before a restore is tried again; doubled each time
  Seconds last_retry{2.0};
};

// Events that no caller waits for. All are called in the loop's thread.
struct ControlEvents {
  std::function<void()> restored;
  std::function<void(const std::string& why)> restore_failed;  // the restore will be tried again
  std::function<void(const DeviceError& why)> lost;            // a call said that the GPU is gone; may repeat
  std::function<void(Watts now)> limit_left;                   // a limit was not restored, since somebody else set it
};

// How a lease ended, which decides what becomes of the power limit.
enum class Ending {
  kReleased,  // as before the lease; if the lease has stated a limit for the loss of its holder, an older cap ends, too
  kLost,      // the limit that it has stated becomes the cap
  kNotBegun,  // as before, an older cap included
  kLifted,    // no cap is left
};

// Who makes a change.
struct Author {
  std::string holder;  // for people
  bool may_end_cap = false;
};

// May be used in the loop's thread only. Done functions and events are called there; Call, Write and Check run in the
// GPU's thread.
class GpuControl {
 public:
  using Call = std::function<void(GpuDevice&)>;
  // `before` holds the values that the knobs named so far had before the first write; a knob without a value was at the
  // driver's default. A cap that the change does not end counts as what held before.
  using Write = std::function<void(GpuDevice&, const GpuSettings& before)>;
  // A check is called before anything is written to the journal or changed, and throws the error with which a forbidden
  // write is refused.
  using Check = std::function<void(const GpuDevice&, const GpuSettings& before)>;
  // Is called with null after success, else with what the call threw, with DeviceError kTimeout, with JournalError, or
  // with HttpError 409 where the lease ended before the call's turn came.
  using Done = std::function<void(std::exception_ptr)>;

  // `outside` holds the settings without a lease, for those that the driver cannot be asked for (see GpuRules).
  GpuControl(std::shared_ptr<GpuDevice> device, std::shared_ptr<const Journal> journal, EventLoop& loop,
             ControlOptions options, ControlEvents events, const GpuSettings& outside = {});
  // Waits for the GPU's thread. If a call hangs, the thread is detached and keeps all that it needs.
  ~GpuControl();
  GpuControl(const GpuControl&) = delete;
  GpuControl& operator=(const GpuControl&) = delete;

  // Runs `check`, writes the knobs of `change` into the journal, then runs `call`, which must make that change and no
  // other. With an empty `call` only the journal is written. A knob that the check refuses counts as untouched, so that
  // the end of the lease leaves it alone.
  void write(const SettingsChange& change, Author author, Check check, Write call, Done done);
  // Reads overtake waiting writes, and go on while a restore waits for its next attempt.
  void read(Call call, Done done);
  // Like read(), but passes `look` the settings that a write would get as `before`, including what others have set
  // since the last write.
  void read_before(Check look, Done done);
  // Drops the writes that have not begun and undoes what the journal names, but for a cap. Calls `restored` when
  // nothing is left to undo.
  void restore(Ending ending);
  // Does the same for an entry that an earlier agent left in the journal, before any lease has touched the GPU.
  void restore_found(const JournalEntry& entry);

  [[nodiscard]] bool restoring() const;
  [[nodiscard]] std::optional<Cap> cap() const;
  [[nodiscard]] Seconds call_age() const;  // of the call under way; 0 where there is none

 private:
  struct State;
  struct Job;
  void submit(std::shared_ptr<Job> job, bool is_read);
  static void run(const std::shared_ptr<State>& state);

  EventLoop& loop_;
  ControlOptions options_;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace flyball
