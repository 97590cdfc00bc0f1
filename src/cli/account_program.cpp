// The program is started with a folder of ours first in PYTHONPATH. Python imports `sitecustomize` from there before
// the program, and that hooks PyTorch (python/outside). Each process of the program that imports PyTorch leaves a file
// there that says what became of its profile.
#include "cli/account_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/embedded.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/power_recording.h"
#include "draw/scale.h"

namespace flyball {
namespace {

constexpr std::size_t kMostProcesses = 4096;     // of which files are read
constexpr std::uintmax_t kLargestState = 65536;  // bytes of such a file

// A new folder that only this user can read, removed at the end.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "flyball-account-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw SystemError(fmt::format("cannot make a folder {}: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// What a process of the program says of its profile.
struct ProfiledProcess {
  std::string state;  // waiting, profiling, profiled, failed
  std::string trace;
  std::string error;
  std::string visible;  // CUDA_VISIBLE_DEVICES
  int rank = std::numeric_limits<int>::max();
  long ended = 0;  // steps
  long profiled = 0;
  bool waited = false;
  bool interrupted = false;
  double step_s = 0.0;
  double later_step_s = 0.0;
  double write_s = 0.0;
  std::vector<std::string> left_out;
};

// Returns nothing where the file is none of ours: the program could write there, too.
std::optional<ProfiledProcess> read_process(const std::filesystem::path& path) {
  try {
    if (std::filesystem::file_size(path) > kLargestState) return std::nullopt;
    const nlohmann::json told = nlohmann::json::parse(read_text_file(path));
    ProfiledProcess process;
    process.state = told.at("state");
    process.trace = told.value("trace", "");
    process.error = told.value("error", "");
    if (told.contains("visible") && told.at("visible").is_string()) process.visible = told.at("visible");
    const std::string rank = told.value("rank", "");
    std::from_chars(rank.data(), rank.data() + rank.size(), process.rank);
    process.ended = told.value("ended", 0L);
    process.profiled = told.value("profiled", 0L);
    process.waited = told.value("waited", false);
    process.interrupted = told.value("interrupted", false);
    process.step_s = told.value("step_s", 0.0);
    process.later_step_s = told.value("later_step_s", 0.0);
    process.write_s = told.value("write_s", 0.0);
    process.left_out = told.value("left_out", std::vector<std::string>());
    if (!process.trace.empty() && !std::filesystem::is_regular_file(process.trace)) return std::nullopt;
    return process;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// In the order of their ranks; those without a rank last, by their numbers as processes.
std::vector<ProfiledProcess> read_processes(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder)) {
    const bool is_settings = entry.path().filename() == "settings.json";
    if (entry.path().extension() == ".json" && !is_settings) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.size() > kMostProcesses) files.resize(kMostProcesses);
  std::vector<ProfiledProcess> processes;
  for (const std::filesystem::path& file : files) {
    if (const std::optional<ProfiledProcess> process = read_process(file)) processes.push_back(*process);
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [](const ProfiledProcess& a, const ProfiledProcess& b) { return a.rank < b.rank; });
  return processes;
}

// Writes what is to run in the program's Pythons, and puts it before whatever they would import.
std::filesystem::path inject(const std::filesystem::path& folder, const std::filesystem::path& traces,
                             const ProgramAccountOptions& options) {
  const std::filesystem::path package = folder / "flyball_outside";
  std::filesystem::create_directories(package);
  const auto write = [](const std::filesystem::path& path, const char* source) {
    write_text_file(path, embedded_file(python_files(), source));
  };
  write(folder / "sitecustomize.py", "outside/sitecustomize.py");
  write(package / "__init__.py", "outside/flyball_outside/__init__.py");
  write(package / "annotation.py", "flyball/torch/annotation.py");
  write(package / "profiling.py", "flyball/torch/profiling.py");
  const nlohmann::json settings = {
      {"traces", std::filesystem::absolute(traces).string()}, {"steps", options.steps}, {"warmup", options.warmup}};
  write_text_file(package / "settings.json", settings.dump());
  const char* before = std::getenv("PYTHONPATH");
  const std::string path = before == nullptr || *before == '\0' ? folder.string() : folder.string() + ":" + before;
  ::setenv("PYTHONPATH", path.c_str(), 1);
  return package;
}

// Why nothing was profiled, and what to do.
std::string no_profile_text(const std::vector<ProfiledProcess>& processes, int warmup) {
  if (processes.empty()) {
    return "nothing was profiled: no Python of the program imported PyTorch and could be told to profile itself\n"
           "  Python with -I, -E or -S, or in a container, cannot be told; for other frameworks profile the program "
           "yourself, and see: flyball account --help";
  }
  const auto most = std::max_element(processes.begin(), processes.end(),
                                     [](const auto& a, const auto& b) { return a.ended < b.ended; });
  for (const ProfiledProcess& process : processes) {
    if (process.state == "failed") return fmt::format("nothing was profiled: {}", process.error);
  }
  if (most->waited || most->interrupted) {
    return "nothing was profiled: the program profiled itself, and PyTorch has one profiler at a time\n"
           "  give its own trace: flyball record -o power.csv -- CMD; flyball account --events TRACE --power power.csv";
  }
  if (most->ended == 0) {
    return "nothing was profiled: the program imported PyTorch, but no optimizer of torch.optim made a step\n"
           "  profile the program yourself, and see: flyball account --help";
  }
  return fmt::format(
      "nothing was profiled: the program made {}, of which the first {} to warm up\n"
      "  train for longer, or give a smaller --warmup",
      counted(most->ended, "step"), warmup == 1 ? "is" : fmt::format("{} are", warmup));
}

// PyTorch counts the GPUs that CUDA_VISIBLE_DEVICES lists, the power trace those of the machine.
void map_visible_devices(const std::vector<ProfiledProcess>& processes, AccountOptions& account) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    std::vector<std::string_view> listed = split_at(',', processes[i].visible);
    for (std::size_t gpu = 0; gpu < listed.size(); ++gpu) {
      unsigned index = 0;
      const auto [end, failure] = std::from_chars(listed[gpu].data(), listed[gpu].data() + listed[gpu].size(), index);
      if (failure != std::errc() || end != listed[gpu].data() + listed[gpu].size()) break;  // a UUID, or none
      if (index == gpu) continue;
      const std::string name = fmt::format("GPU:{}", gpu);
      const int rank = processes[i].rank == std::numeric_limits<int>::max() ? static_cast<int>(i) : processes[i].rank;
      account.event_devices.try_emplace(account.ranks ? fmt::format("{}/{}", rank, name) : name,
                                        fmt::format("GPU:{}", index));
    }
  }
}

std::string cost_text(const ProfiledProcess& process) {
  std::string text =
      fmt::format("flyball: profiled {} of {} that ended", counted(process.profiled, "step"), process.ended);
  if (process.step_s > 0.0) text += fmt::format(", each took {} s", short_number(process.step_s));
  if (process.step_s > 0.0 && process.later_step_s > 0.0) {
    text += fmt::format(" ({} s without the profiler, after them)", short_number(process.later_step_s));
  }
  return text + fmt::format("; writing the trace took {} s\n", short_number(process.write_s));
}

std::string energy_text(const WindowEnergy& energy, const std::string& program) {
  std::vector<std::string> devices;
  for (const DeviceEnergy& device : energy.devices) {
    devices.push_back(fmt::format("{} {:.1f} J{}", device.device, device.energy.value(),
                                  device.lacks_readings() ? ", readings missing" : ""));
  }
  return fmt::format("flyball: {}: {:.3f} s, {:.1f} J ({})\n", program, energy.time.value(), energy.total().value(),
                     fmt::join(devices, ", "));
}

void check_before(const AccountArguments& arguments) {
  if (!arguments.account.events.empty() || !arguments.account.power.empty() || !arguments.account.jiffies.empty()) {
    throw UsageError(
        "account: --events, --power and --jiffies are for traces that are there, and a program gets new ones; drop "
        "them or the program");
  }
  if (arguments.account.ranks) {
    throw UsageError("account: --ranks is for traces that are there; of a program, all processes that train are ranks");
  }
  for (const auto* path : {&arguments.json, &arguments.csv, &arguments.html, &arguments.svg, &arguments.pprof,
                           &arguments.speedscope, &arguments.chrome}) {
    if (!*path) continue;
    const bool was_there = std::filesystem::exists(**path);
    if (!std::ofstream(**path, std::ios::app)) {
      throw SystemError(fmt::format("cannot write {}: {}", **path, std::strerror(errno)));
    }
    if (!was_there) std::filesystem::remove(**path);
  }
}

// Returns whether there is an account.
bool account_profiles(AccountArguments arguments, const std::vector<ProfiledProcess>& all, int warmup,
                      const std::string& power, const std::optional<std::string>& jiffies,
                      const std::string& command_line) {
  std::vector<ProfiledProcess> processes;
  for (const ProfiledProcess& process : all) {
    if (process.state == "profiled") processes.push_back(process);
    if (process.state == "profiling") {
      print_warning("a process was killed while it was profiled, and left no trace");
    } else if (process.state == "failed") {
      print_warning(fmt::format("a process was not profiled: {}", process.error));
    }
  }
  if (processes.empty()) {
    print_error(no_profile_text(all, warmup));
    return false;
  }
  for (const ProfiledProcess& process : processes) {
    arguments.account.events.push_back(process.trace);
    for (const std::string& left_out : process.left_out) print_warning(left_out);
    if (process.interrupted) print_warning("the program began to profile itself, which ended our profile");
  }
  print_report(cost_text(processes.front()));
  arguments.account.ranks = processes.size() > 1;
  if (arguments.account.ranks && arguments.chrome) {
    print_warning("--chrome shows one process, and several trained; it is left out");
    arguments.chrome.reset();
  }
  map_visible_devices(processes, arguments.account);
  arguments.account.power = {power};
  if (jiffies) arguments.account.jiffies = {*jiffies};
  if (!arguments.account.estimate_clock_offset && !arguments.account.clock_offset) {
    arguments.account.clock_offset = Seconds(0);  // both traces are in this machine's Unix time
  }
  arguments.to_standard_error = true;
  try {
    const InterruptExit interrupt_exit;
    run_account(arguments, command_line);
    return true;
  } catch (const Error& error) {
    print_error(error.what());
    return false;
  }
}

}  // namespace

void add_program_account_options(const Command& command, ProgramAccountOptions& options) {
  const auto asked = [&options](auto parse) {
    return [&options, parse](std::string_view option, std::string_view text) {
      options.profiling_is_asked = true;
      return parse(option, text);
    };
  };
  add_value(command, "--steps", options.steps, asked(parse_count), "N",
            "with a program: number of training steps to profile (default 20)");
  add_value(command, "--warmup", options.warmup, asked(parse_count), "N",
            "with a program: number of steps before them, from 1 (default 3)");
  add_value(command, "--folder", options.folder, asked(parse_path), "DIR",
            "with a program: keep its traces there (default: they are removed)");
  add_measuring_options(command, options.measuring);
}

void account_program(const AccountArguments& arguments, const ProgramAccountOptions& options,
                     const std::string& command_line) {
  check_before(arguments);
  AccountOptions checked = arguments.account;
  checked.events = checked.power = {"the program's"};
  (void)account_request(checked, kAccountOptionNames);
  const PrivateFolder own;
  const std::filesystem::path traces = options.folder ? std::filesystem::path(*options.folder) : own.path();
  std::filesystem::create_directories(traces);
  PowerRecordingFiles files;
  files.power = (traces / "power.csv").string();
  // Where sensors are given other sockets, jiffies would divide by the wrong ones.
  if (!options.measuring.no_cpu && arguments.account.power_devices.empty()) {
    files.jiffies = (traces / "jiffies.csv").string();
  }
  const std::filesystem::path told = inject(own.path() / "python", traces, options);
  int status = 0;
  WindowEnergy energy;
  {
    PowerRecording recording(options.measuring, files);
    status = recording.run_program().status;
    recording.finish(status);
    energy = recording.energy();
  }
  print_report(energy_text(energy, shown_command(options.measuring.command)));
  const bool accounted =
      account_profiles(arguments, read_processes(told), options.warmup, files.power, files.jiffies, command_line);
  throw ExitStatus{accounted || status != 0 ? status : 1};
}

}  // namespace flyball
