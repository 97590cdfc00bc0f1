// One GPU's calls, one after another, in a thread of their own: what a broken driver blocks is this thread and nothing
// else.
//
// Writes keep the journal's rule: the entry that names a knob, and what the knob stood at, is on disk before the knob
// is first touched. restore() brings back what held before, retries until that has worked, and only then removes the
// entry. A power limit that somebody else has set since the last call here is left as it is.
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
  Seconds call_timeout{1.0};  // when a caller is told that the driver hangs
  Seconds first_retry{0.02};  // of a restore; doubled each time
  Seconds last_retry{2.0};
};

// What happens without a caller to tell. Called in the loop's thread.
struct ControlEvents {
  std::function<void()> restored;
  std::function<void(const std::string& why)> restore_failed;  // and will be tried again
  std::function<void(const DeviceError& why)> lost;            // a call said that the GPU is gone; may repeat
  std::function<void(Watts now)> limit_left;                   // not restored: somebody else has set it
};

// To be used from the loop's thread; all callbacks are called there.
class GpuControl {
 public:
  using Call = std::function<void(GpuDevice&)>;
  // `before`: what held before the first write, of the knobs that have been named; nothing: the driver's default.
  using Write = std::function<void(GpuDevice&, const GpuSettings& before)>;
  // The same, before anything is noted or changed: throws what a write that may not be is refused with.
  using Check = std::function<void(const GpuDevice&, const GpuSettings& before)>;
  // Nothing, or what was thrown: by the call, DeviceError kTimeout, JournalError, or HttpError 409 where the lease
  // ended before the call's turn came.
  using Done = std::function<void(std::exception_ptr)>;

  // `outside`: what holds where the driver cannot be asked, as GpuRules says.
  GpuControl(std::shared_ptr<GpuDevice> device, std::shared_ptr<const Journal> journal, EventLoop& loop,
             ControlOptions options, ControlEvents events, const GpuSettings& outside = {});
  // Waits for the thread, unless a call hangs: then the thread is left behind with all that it needs.
  ~GpuControl();
  GpuControl(const GpuControl&) = delete;
  GpuControl& operator=(const GpuControl&) = delete;

  // Checks, puts into the journal what `change` names, then calls, which makes that change and no other. An empty
  // `call` only writes the journal. What a check refuses counts as untouched: the end of the lease leaves it alone.
  void write(const SettingsChange& change, const std::string& holder, Check check, Write call, Done done);
  // Reads go before writes that wait, and on while a restore waits for its next attempt.
  void read(Call call, Done done);
  // The same with what would hold before a write: also what others have set since the last one.
  void read_before(Check look, Done done);
  // Drops the writes that have not begun and undoes what the journal names. Ends with `restored`.
  void restore();
  // As after a start that found the entry in the journal. No lease has touched the GPU since.
  void restore_found(const JournalEntry& entry);

  [[nodiscard]] bool restoring() const;
  [[nodiscard]] Seconds call_age() const;  // of the call under way; 0 where there is none
  // Waits until nothing is left to restore; false when that takes longer. Any thread but the loop's.
  [[nodiscard]] bool wait_restored(Seconds most) const;

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
