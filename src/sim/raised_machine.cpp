// Exclusive creation of the shared memory decides between two that raise the same machine; the loser waits for the
// winner's. The writer of the powercap tree is this program again, in a session of its own, and announces itself in
// the shared memory.
#include "sim/raised_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "sim/powercap.h"

namespace flyball {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kPoll{2};

std::string spoken_name(const std::string& name) {
  return name.empty() ? "a simulated machine" : fmt::format("the simulated machine '{}'", name);
}

std::string user_text(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry != nullptr ? fmt::format("{} (uid {})", entry->pw_name, uid) : fmt::format("uid {}", uid);
}

fs::path own_program() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) throw SystemError(fmt::format("cannot find this program's own file: {}", error.message()));
  return program;
}

// The program that has the commands of `flyball sim` alone (cli/sim_main.cpp), and what it is called by.
constexpr const char* kSmallProgram = "flyball-sim";

bool is_small_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).filename() == kSmallProgram;
}

// Starts `flyball sim powercap` on its own, away from this terminal, and waits until its counters stand.
void start_powercap_writer(Machine& machine) {
  const std::string program = own_program().string();
  const bool is_small = is_small_program();
  const std::string& name = machine.name();
  const pid_t child = ::fork();
  if (child < 0) throw SystemError(fmt::format("cannot start the powercap writer: {}", std::strerror(errno)));
  if (child == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    // A pipe of the caller's must not stay open for as long as the machine is up. glibc has the call since 2.34 only.
    (void)::syscall(SYS_close_range, 3U, ~0U, 0U);
    if (::chdir("/") != 0) ::_exit(126);
    if (is_small) {
      ::execl(program.c_str(), kSmallProgram, "powercap", "--name", name.c_str(), nullptr);
    } else {
      ::execl(program.c_str(), "flyball", "sim", "powercap", "--name", name.c_str(), nullptr);
    }
    ::_exit(127);
  }
  const auto deadline = Clock::now() + kPatience;
  while (machine.shared().powercap_pid.load() != child) {
    const bool ended = ::waitpid(child, nullptr, WNOHANG) == child;
    if (ended || Clock::now() > deadline) {
      if (!ended) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
      }
      throw SystemError(fmt::format("the powercap writer for {} did not start", machine.shared().powercap));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

// The machine that stands where another was to be made; null if that one has gone, too.
std::shared_ptr<Machine> standing_machine(const std::string& name) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline) {
    if (auto machine = Machine::open(name)) return machine;
    std::this_thread::sleep_for(kPoll);  // somebody else is making it
  }
  return nullptr;
}

}  // namespace

RaisedMachine raise_machine(const MachineRequest& request) {
  const MachineSpec spec = specify_machine(request);
  std::shared_ptr<Machine> standing = Machine::open(request.name);
  std::shared_ptr<Machine> machine;
  if (standing == nullptr) {
    try {
      machine = Machine::create(request.name, spec);
    } catch (const MachineExists&) {
      standing = standing_machine(request.name);
    }
  }
  if (machine == nullptr) {
    if (standing == nullptr) {
      throw SystemError(fmt::format("{} was left half made; take it down: {} down{}", spoken_name(request.name),
                                    as_typed("flyball sim"), request.name.empty() ? "" : " --name " + request.name));
    }
    if (spec.description == standing->shared().description) return {standing, true};
    throw UsageError(
        fmt::format("{} is up already with {}, not {}\n  {}", spoken_name(request.name), standing->shared().description,
                    spec.description,
                    foreign_owner(*standing).empty()
                        ? as_typed("take it down first (flyball sim down), or give this one a --name")
                        : fmt::format("it belongs to {}: give this one a --name", foreign_owner(*standing))));
  }
  if (!spec.powercap.empty()) {
    try {
      make_powercap_tree(*machine);
      start_powercap_writer(*machine);
    } catch (const Error&) {
      lower_machine(request.name);
      throw;
    }
  }
  return {machine, false};
}

std::string foreign_owner(const Machine& machine) {
  return machine.owner() == ::geteuid() ? std::string() : user_text(machine.owner());
}

bool lower_machine(const std::string& name) {
  const std::shared_ptr<Machine> machine = Machine::open(name);
  try {
    if (!Machine::remove(name)) return false;
  } catch (const MachineOfOther& other) {
    throw SystemError(
        fmt::format("{} belongs to {}: it was left as it is; let that user or root take it down, or make "
                    "one of your own with: {} up --name NAME",
                    spoken_name(name), user_text(other.owner()), as_typed("flyball sim")));
  }
  if (machine == nullptr) return true;
  const std::int32_t writer = machine->shared().powercap_pid.load();
  const auto deadline = Clock::now() + kPatience;
  while (writer != 0 && process_start(writer) != 0 && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  const std::string powercap = machine->shared().powercap;
  if (!powercap.empty()) remove_powercap_tree(powercap);
  return true;
}

std::shared_ptr<Machine> required_machine(const std::string& name) {
  std::shared_ptr<Machine> machine = Machine::open(name);
  if (machine == nullptr) {
    throw UsageError(fmt::format("{} is not up; bring it up with: {} up{}", spoken_name(name), as_typed("flyball sim"),
                                 name.empty() ? "" : " --name " + name));
  }
  return machine;
}

std::string as_typed(std::string text) {
  constexpr std::string_view kWords = "flyball sim";
  if (!is_small_program()) return text;
  for (std::size_t at = text.find(kWords); at != std::string::npos; at = text.find(kWords, at + 1)) {
    text.replace(at, kWords.size(), kSmallProgram);
  }
  return text;
}

std::string simulated_library_folder() {
  const fs::path beside = own_program().parent_path();
  // In a folder of build, in an installation, and in one where libraries are in lib/ whatever the system's custom is.
  const std::array folders = {beside / "sim", (beside / FLYBALL_SIM_FOLDER).lexically_normal(),
                              beside.parent_path() / "lib" / "flyball" / "sim"};
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (fs::exists(folder / "libnvidia-ml.so.1", error)) return folder.string();
  }
  throw SystemError(
      fmt::format("the simulated libnvidia-ml.so.1 is neither in {} nor in {}; install it (cmake --install build "
                  "--component sim, or the package flyball-sim), or build the target flyball_nvidia_ml",
                  folders[0].string(), folders[1].string()));
}

}  // namespace flyball
