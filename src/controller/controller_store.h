// What the controller must not forget, in a SQLite file: what it wants of which job, what jobs have told and cost, and
// the budget. Everything else is the engine's. Every function is one transaction, on the disk when it returns. Throws
// DatabaseError. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "controller/transition.h"
#include "database/database.h"
#include "wire/job_messages.h"

namespace flyball {

// What is kept of a job beside its transition.
struct JobRecord {
  std::int64_t job = 0;
  double iteration = 0.0;   // that it last reported
  double iterations = 0.0;  // of the whole job; 0: not reported
  int failures = 0;         // transitions that came to nothing, one after another
  int told = -1;            // the restarts that the engine had counted when the job was last told to stop
  bool held = false;        // it waits until we release it, by our own doing; holds of others are not ours to end
  int released = -1;        // the restarts that the engine had counted when we last released it
  int ran = -1;             // and when it was last seen to run
  int reported = -1;        // and when it last reported from where it ran, or failed for good
  // And when the engine had been away, or had forgotten a start, since it was released and before it reported: what it
  // says of that start may be its own failure, by whatever name.
  int in_doubt = -1;
};

// What an iteration of a kind was measured to take.
struct MeasuredCost {
  std::string kind;
  int gpus = 1;
  int nodes = 1;
  double clock_mhz = 0.0;
  double time_s = 0.0;
  double energy_j = 0.0;
};

// What is measured of changes of a job's GPUs.
enum class ChangePart {
  kRestart,     // what a job loses that ends and is started again
  kShrink,      // what a job loses that gives nodes back while it runs
  kStop,        // from the decision that takes GPUs from a job until the engine shows it without
  kChangeover,  // from the decision that gives GPUs in use to a job until it can be started on them
};
template <>
inline constexpr auto kNamesOf<ChangePart> = name_list("restart", "shrink", "stop", "changeover");

// In the mean of the last changes of jobs of a kind.
struct ChangeTime {
  std::string kind;
  ChangePart part = ChangePart::kRestart;
  double mean_s = 0.0;
  int measured = 0;  // how often
};

// A job that was told to give nodes back while it runs. Counts of restarts are those that the engine had counted.
struct ShrinkRecord {
  std::int64_t job = 0;
  int told = -1;                   // when it was last told to go on with `nodes`; -1: it was not, or has done so
  std::vector<std::string> nodes;  // by rising name
  bool goes_on = false;            // it has said since that it does
  int refused = -1;                // up to so many restarts it ends in place of going on
};

// What a node takes to wake.
struct NodeRecord {
  std::string node;
  Seconds asked;        // when (Unix time) it was last told to wake, until it has; 0: it was not, or has
  double mean_s = 0.0;  // from the order until it is there
  int measured = 0;     // how often
  int failed = 0;       // how often the engine has given it up
};

// The watts of all GPUs that were ordered; 0 where nothing was. Until `until` (Unix time), or for good, it is `budget`;
// then that of the period that there is, and else `afterwards`: the order without an end that held before.
struct PowerOrder {
  Watts budget;
  std::optional<Seconds> until;
  Watts afterwards;
  std::vector<JobLimits::Period> periods;  // rising in time; an order for good ends them

  [[nodiscard]] Watts at(Seconds now) const;
  // The next time after `now` at which that may change.
  [[nodiscard]] std::optional<Seconds> next_change(Seconds now) const;
};

class ControllerStore {
 public:
  // Opens or makes the file; an empty path keeps everything in memory. Also throws InputError where the file is another
  // program's or of a newer format.
  explicit ControllerStore(const std::string& path);

  [[nodiscard]] std::vector<Transition> transitions();
  [[nodiscard]] std::vector<JobRecord> jobs();
  [[nodiscard]] std::vector<MeasuredCost> costs();
  [[nodiscard]] std::vector<ChangeTime> change_times();
  [[nodiscard]] std::vector<ShrinkRecord> shrinks();
  [[nodiscard]] std::vector<NodeRecord> nodes();
  [[nodiscard]] std::optional<PowerOrder> order();

  void want(const std::vector<Transition>& changes);  // each in the place of its job's last one
  void settled(std::int64_t job);                     // nothing more is wanted of it
  void keep(const std::vector<JobRecord>& jobs);
  void forget(std::int64_t job);  // with its transition
  void keep(const MeasuredCost& cost);
  void keep(const ChangeTime& time);
  void keep(const ShrinkRecord& shrink);
  void keep(const std::vector<NodeRecord>& nodes);
  void keep(const PowerOrder& order);

 private:
  template <class Write>
  void in_transaction(const Write& write);

  Database database_;
};

}  // namespace flyball
