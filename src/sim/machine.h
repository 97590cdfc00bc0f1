// The simulated machine: boards in POSIX shared memory. The boards look the same to every process that opens the
// machine, and the machine lives on when any of these processes dies.
//
// Each board has a robust mutex and two copies of its state. A change is made on the copy that is not shown and then
// shown by one store, so a process that is killed at any moment, even while it holds the mutex, leaves a whole state
// behind. Waiting is done on a counter (a futex) that moves whenever something is asked of a board; a process killed
// while it waits leaves nothing behind at all.
//
// Any user may open a machine for writing, since it is a simulator and protects nothing. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include <pthread.h>
#include <sys/types.h>

#include "base/error.h"
#include "sim/board.h"

namespace flyball {

inline constexpr std::size_t kSimBoards = 16;
inline constexpr std::uint32_t kSimLayoutVersion = 5;

// Simulated time at which a machine starts: sensors can look back on idling from the beginning.
inline constexpr Nanoseconds kSimStart = 2'000'000'000;

// Processor packages, for the simulated powercap tree: they draw a constant power, and more for each GPU that a process
// works on or waits for. Package p serves the boards whose index is p modulo the number of packages.
struct CpuSpec {
  std::uint32_t packages = 1;
  Watts package_idle{45.0};
  Watts package_per_gpu{12.0};
  Watts dram_idle{6.0};
  Watts dram_per_gpu{4.0};
  std::uint64_t range_microjoules = 262'143'328'850;  // a common server's
};

struct MachineSpec {
  std::vector<BoardSpec> boards;  // 1 to kSimBoards
  double time_scale = 1.0;        // simulated seconds per second; 0: time moves only by add_time()
  CpuSpec cpu;
  std::string description;  // what the machine was made from; to raise it again with the same one is no error
  std::string powercap;     // folder of the simulated powercap tree, or empty
};

// A board in shared memory.
struct SharedBoard {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> changes;  // a futex that moves when something is asked of the board
  std::atomic<std::uint32_t> shown;    // index of the state that holds
  BoardSpec spec;
  BoardState states[2];
};

struct SharedMachine {
  std::atomic<std::uint64_t> magic;  // written last
  std::uint32_t version;
  std::uint32_t size;
  std::uint32_t board_count;
  std::atomic<std::uint32_t> down;         // a futex, which is 1 once the machine is being taken down
  std::atomic<std::int32_t> powercap_pid;  // of the process that writes the powercap files; 0: none
  std::atomic<Nanoseconds> offset;         // simulated time = offset + time_scale * (wall time - epoch)
  Nanoseconds epoch;                       // wall time (CLOCK_MONOTONIC) when the machine was made
  double time_scale;
  CpuSpec cpu;
  char description[256];
  char powercap[256];
  SharedBoard boards[kSimBoards];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Nanoseconds>::is_always_lock_free);

// Returns the time of CLOCK_MONOTONIC.
[[nodiscard]] Nanoseconds wall_now();

// Returns the name of the shared memory of the machine that the user calls `name` ("" is the common one):
// "/flyball-sim" or "/flyball-sim-NAME". Throws UsageError for characters other than letters, digits, '.', '_' and '-'.
[[nodiscard]] std::string machine_path(const std::string& name);

// Returns the name in the environment variable FLYBALL_SIM; "" where it is not set.
[[nodiscard]] std::string machine_name_from_environment();

// Thrown where there is already a machine of that name, or somebody is making one.
class MachineExists : public SystemError {
 public:
  using SystemError::SystemError;
};

// Thrown where the machine belongs to another user.
class MachineOfOther : public SystemError {
 public:
  MachineOfOther(const std::string& what, uid_t owner) : SystemError(what), owner_(owner) {}
  [[nodiscard]] uid_t owner() const { return owner_; }

 private:
  uid_t owner_;
};

class Machine {
 public:
  // Makes the shared memory of a new machine. Throws MachineExists, or SystemError when the system refuses.
  static std::shared_ptr<Machine> create(const std::string& name, const MachineSpec& spec);

  // Opens a machine; returns null where there is none. Throws SystemError for a machine that another version made.
  [[nodiscard]] static std::shared_ptr<Machine> open(const std::string& name);

  // Takes a machine down: the processes that have it open are told, and its name is free. Returns false where there is
  // none. Throws MachineOfOther, having done nothing, where it is another user's and the caller is not root.
  static bool remove(const std::string& name);

  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // The user who made the machine. Only this user and root can take it down.
  [[nodiscard]] uid_t owner() const { return owner_; }
  [[nodiscard]] SharedMachine& shared() const { return *shared_; }
  [[nodiscard]] std::size_t board_count() const { return shared_->board_count; }
  [[nodiscard]] const BoardSpec& spec(std::size_t board) const { return shared_->boards[board].spec; }
  [[nodiscard]] bool down() const { return shared_->down.load() != 0; }

  // The simulated time.
  [[nodiscard]] Nanoseconds now() const;
  // The wall time at which the simulated time will be `t`; the largest number while time stands still.
  [[nodiscard]] Nanoseconds wall_time_of(Nanoseconds t) const;
  // Moves the simulated time on at once, for every process.
  void add_time(Nanoseconds span);

  // Sleeps until the board's counter is no longer `seen`, or until the wall time, but no longer than a second: a
  // process that moved the counter may have been killed before it woke anyone.
  void wait(std::size_t board, std::uint32_t seen, Nanoseconds wall_deadline) const;
  void wake(std::size_t board) const;

  // Energy (J) of a processor package, and of its memory, since the machine was made.
  [[nodiscard]] double package_joules(std::size_t package);
  [[nodiscard]] double dram_joules(std::size_t package);

 private:
  [[nodiscard]] double joules(std::size_t package, Watts idle, Watts per_gpu);
  Machine(std::string name, SharedMachine* shared, uid_t owner)
      : name_(std::move(name)), owner_(owner), shared_(shared) {}

  std::string name_;
  uid_t owner_;
  SharedMachine* shared_;
};

// Access to one board, which is locked and brought to the present, without the processes that have died. Changes of
// state() hold once commit() is called, and are else forgotten. Access may be held for microseconds only.
class BoardAccess {
 public:
  BoardAccess(Machine& machine, std::size_t board);
  ~BoardAccess();
  BoardAccess(const BoardAccess&) = delete;
  BoardAccess& operator=(const BoardAccess&) = delete;

  [[nodiscard]] const BoardSpec& spec() const { return board_.spec; }
  [[nodiscard]] BoardState& state() { return *state_; }
  [[nodiscard]] std::uint32_t changes() const { return board_.changes.load(); }

  // Makes the changes hold. Must be called once, at the end.
  void commit();
  // Does the same, and tells those who wait that something was asked of the board.
  void commit_change();

 private:
  Machine& machine_;
  std::size_t index_;
  SharedBoard& board_;
  BoardState* state_;
  bool dropped_ = false;
  bool wake_ = false;
};

// Returns when the process began, as /proc tells it; 0 for a process that has ended, even if it is still a zombie.
[[nodiscard]] std::uint64_t process_start(std::int32_t pid);

}  // namespace flyball
