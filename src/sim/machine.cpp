// POSIX shared memory of a fixed layout; its magic number is written last, so that whoever opens it too early sees
// none. Waiting is FUTEX_WAIT on a board's counter of changes, for a second at most. A process is known by its number
// and its start time from /proc; the dead are dropped when a board is next accessed, every 5 ms at most.
#include "sim/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/futex.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

constexpr std::uint64_t kMagic = 0x314d4953594c46;  // "FLYSIM1"
constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
constexpr Nanoseconds kLongestWait = kSecond;
constexpr Nanoseconds kReapPeriod = 5'000'000;

SystemError system_error(const std::string& what, const std::string& path, int error) {
  return SystemError("simulated machine " + path + ": " + what + ": " + std::strerror(error));
}

SharedMachine* map_shared(int fd, const std::string& path) {
  void* memory = ::mmap(nullptr, sizeof(SharedMachine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw system_error("cannot map it", path, errno);
  return static_cast<SharedMachine*>(memory);
}

void make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

// Returns whether there was one.
bool drop_dead_processes(BoardState& state, Nanoseconds wall) {
  if (wall - state.reaped_at < kReapPeriod) return false;
  state.reaped_at = wall;
  bool dropped = false;
  for (std::size_t i = 0; i < kSimProcesses; ++i) {
    const SimProcess& process = state.processes[i];
    if (process.pid == 0 || process_start(process.pid) == process.started) continue;
    drop_process(state, i);
    dropped = true;
  }
  return dropped;
}

}  // namespace

Nanoseconds wall_now() { return monotonic_now(); }

std::string machine_path(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (!plain || name.size() > 100) {
    throw UsageError("a simulated machine cannot be called '" + name +
                     "'; use up to 100 letters, digits, '.', '_' and '-'");
  }
  return name.empty() ? "/flyball-sim" : "/flyball-sim-" + name;
}

std::string machine_name_from_environment() {
  const char* name = std::getenv("FLYBALL_SIM");
  return name == nullptr ? "" : name;
}

std::uint64_t process_start(std::int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = file.get() < 0 ? -1 : ::read(file.get(), text.data(), text.size() - 1);
  if (length <= 0) return 0;
  // Fields are counted from the name's closing bracket, since a name may hold anything.
  const char* field = std::strrchr(text.data(), ')');
  if (field == nullptr || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X') return 0;
  for (int skip = 0; skip < 20; ++skip) {
    field = std::strchr(field + 1, ' ');
    if (field == nullptr) return 0;
  }
  return std::strtoull(field, nullptr, 10) + 1;  // never 0 for a living one
}

std::shared_ptr<Machine> Machine::create(const std::string& name, const MachineSpec& spec) {
  const std::string path = machine_path(name);
  const FileDescriptor file(::shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0 && errno == EEXIST) throw MachineExists("simulated machine " + path + " is there already");
  if (file.get() < 0) throw system_error("cannot make it", path, errno);
  ::fchmod(file.get(), 0666);  // whatever the umask: every user sees the same devices
  if (::ftruncate(file.get(), sizeof(SharedMachine)) != 0) {
    const int error = errno;
    ::shm_unlink(path.c_str());
    throw system_error("no room for it", path, error);
  }
  SharedMachine* shared = map_shared(file.get(), path);  // all zeros
  shared->version = kSimLayoutVersion;
  shared->size = sizeof(SharedMachine);
  shared->board_count = static_cast<std::uint32_t>(spec.boards.size());
  shared->offset = kSimStart;
  shared->epoch = wall_now();
  shared->time_scale = spec.time_scale;
  shared->cpu = spec.cpu;
  set_text(shared->description, spec.description);
  set_text(shared->powercap, spec.powercap);
  for (std::size_t i = 0; i < spec.boards.size(); ++i) {
    SharedBoard& board = shared->boards[i];
    make_mutex(board.mutex);
    board.spec = spec.boards[i];
    board.states[0] = switched_on(spec.boards[i]);
    advance(board.spec, board.states[0], kSimStart);
  }
  shared->magic.store(kMagic, std::memory_order_release);
  return std::shared_ptr<Machine>(new Machine(name, shared, ::geteuid()));
}

std::shared_ptr<Machine> Machine::open(const std::string& name) {
  const std::string path = machine_path(name);
  const FileDescriptor file(::shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (file.get() < 0) {
    if (errno == ENOENT) return nullptr;
    throw system_error("cannot open it", path, errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error("cannot open it", path, errno);
  if (status.st_size == 0) return nullptr;  // it is still being made
  if (static_cast<std::size_t>(status.st_size) != sizeof(SharedMachine)) {
    throw SystemError("simulated machine " + path + " was made by another version; take it down with that one");
  }
  SharedMachine* shared = map_shared(file.get(), path);
  auto machine = std::shared_ptr<Machine>(new Machine(name, shared, status.st_uid));
  if (shared->magic.load(std::memory_order_acquire) != kMagic) return nullptr;
  if (shared->version != kSimLayoutVersion) {
    throw SystemError("simulated machine " + path + " was made by another version; take it down with that one");
  }
  return machine;
}

bool Machine::remove(const std::string& name) {
  const std::string path = machine_path(name);
  const FileDescriptor file(::shm_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (file.get() < 0 && errno == ENOENT) return false;
  struct stat status {};
  // Everybody may write to the machine, but only root and its owner may free its name.
  if (file.get() >= 0 && ::fstat(file.get(), &status) == 0 && ::geteuid() != 0 && ::geteuid() != status.st_uid) {
    throw MachineOfOther("simulated machine " + path + " belongs to user " + std::to_string(status.st_uid),
                         status.st_uid);
  }
  std::shared_ptr<Machine> machine;
  try {
    machine = open(name);
  } catch (const SystemError&) {
    machine = nullptr;  // of another version: its name can still be freed
  }
  if (machine) {
    machine->shared().down.store(1);
    for (std::size_t i = 0; i < machine->board_count(); ++i) machine->wake(i);
  }
  if (::shm_unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;  // somebody was faster
  throw system_error("cannot take it down", path, errno);
}

Machine::~Machine() { ::munmap(shared_, sizeof(SharedMachine)); }

Nanoseconds Machine::now() const {
  const double wall = static_cast<double>(wall_now() - shared_->epoch);
  return shared_->offset.load() + static_cast<Nanoseconds>(shared_->time_scale * wall);
}

Nanoseconds Machine::wall_time_of(Nanoseconds t) const {
  if (shared_->time_scale == 0.0) return kNever;
  const double wall = static_cast<double>(t - shared_->offset.load()) / shared_->time_scale;
  // Rounded up, so that it is `t` by then.
  return wall > 9e18 ? kNever : shared_->epoch + static_cast<Nanoseconds>(wall) + 1;
}

void Machine::add_time(Nanoseconds span) {
  shared_->offset += span;
  for (std::size_t i = 0; i < board_count(); ++i) wake(i);
}

void Machine::wait(std::size_t board, std::uint32_t seen, Nanoseconds wall_deadline) const {
  const Nanoseconds until = std::min(wall_deadline, wall_now() + kLongestWait);
  futex_wait(shared_->boards[board].changes, seen, until, FutexScope::kMachine);
}

void Machine::wake(std::size_t board) const {
  ++shared_->boards[board].changes;
  futex_wake(shared_->boards[board].changes, std::numeric_limits<int>::max(), FutexScope::kMachine);
}

double Machine::joules(std::size_t package, Watts idle, Watts per_gpu) {
  double total = idle.value() * to_seconds(now() - kSimStart).value();
  for (std::size_t i = package; i < board_count(); i += shared_->cpu.packages) {
    total += per_gpu.value() * BoardAccess(*this, i).state().busy_seconds.value();
  }
  return total;
}

double Machine::package_joules(std::size_t package) {
  return joules(package, shared_->cpu.package_idle, shared_->cpu.package_per_gpu);
}

double Machine::dram_joules(std::size_t package) {
  return joules(package, shared_->cpu.dram_idle, shared_->cpu.dram_per_gpu);
}

BoardAccess::BoardAccess(Machine& machine, std::size_t board)
    : machine_(machine), index_(board), board_(machine.shared().boards[board]) {
  // A holder that was killed has shown a whole state or none: there is nothing to mend.
  if (::pthread_mutex_lock(&board_.mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&board_.mutex);
  const std::uint32_t shown = board_.shown.load();
  state_ = &board_.states[1 - shown];
  *state_ = board_.states[shown];
  const Nanoseconds wall = wall_now();
  advance(board_.spec, *state_, machine.now());
  dropped_ = drop_dead_processes(*state_, wall);
}

BoardAccess::~BoardAccess() {
  ::pthread_mutex_unlock(&board_.mutex);
  if (wake_) machine_.wake(index_);
}

void BoardAccess::commit() {
  board_.shown.store(1 - board_.shown.load());
  wake_ = wake_ || dropped_;  // the work of those who share the board with the dead ends earlier now
}

void BoardAccess::commit_change() {
  commit();
  wake_ = true;
}

}  // namespace flyball
