// flyball sim: simulated GPUs behind the vendor's own interface.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "draw/text_table.h"
#include "profile/gpu_model.h"
#include "profile/workload_model.h"
#include "sim/powercap.h"
#include "sim/raised_machine.h"
#include "sim/workload.h"

namespace flyball {
namespace {

using nlohmann::ordered_json;

// The options that every subcommand has.
struct CommonOptions {
  std::optional<std::string> name;
  std::optional<std::string> format;

  [[nodiscard]] std::string machine_name() const { return name.value_or(machine_name_from_environment()); }
  [[nodiscard]] bool json() const { return format == "json"; }
};

std::string parse_name(std::string_view option, std::string_view text) {
  (void)option;
  (void)machine_path(std::string(text));  // refuses what cannot be a name
  return std::string(text);
}

std::size_t parse_index(std::string_view option, std::string_view text) {
  const std::string wanted = fmt::format("the index of a GPU from 0 to {}", kSimBoards - 1);
  return static_cast<std::size_t>(parse_integer_within(option, text, 0, static_cast<long>(kSimBoards) - 1, wanted));
}

double parse_scale(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 1000.0, "simulated seconds per second from 0 to 1000");
}

int parse_board_count(std::string_view option, std::string_view text) {
  const std::string wanted = fmt::format("a number of boards from 1 to {}", kSimBoards);
  return static_cast<int>(parse_integer_within(option, text, 1, static_cast<long>(kSimBoards), wanted));
}

std::string parse_folder(std::string_view option, std::string_view text) {
  return std::filesystem::absolute(parse_path(option, text)).lexically_normal().string();
}

std::uint64_t parse_range(std::string_view option, std::string_view text) {
  constexpr long kMost = std::numeric_limits<long>::max();
  return static_cast<std::uint64_t>(parse_integer_within(option, text, 1000, kMost, "microjoules from 1000"));
}

void add_common(const Command& command, CommonOptions& options, bool with_format = true) {
  add_value(command, "--name", options.name, parse_name, "NAME",
            "name of the simulated machine (default: what FLYBALL_SIM names, else the common one)");
  if (with_format) add_format(command, options.format);
}

void require_board(const Machine& machine, std::size_t gpu) {
  if (gpu >= machine.board_count()) {
    throw UsageError(
        fmt::format("there is no simulated GPU {}; the machine has 0 to {}", gpu, machine.board_count() - 1));
  }
}

// up

struct UpOptions {
  CommonOptions common;
  MachineRequest request;
  std::optional<std::uint32_t> seed;
  bool ideal = false;
};

std::uint32_t parse_seed(std::string_view option, std::string_view text) {
  constexpr long kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(parse_integer_within(option, text, 1, kMost, "a whole number from 1"));
}

Seconds parse_latency(std::string_view option, std::string_view text) {
  return Seconds(parse_number_within(option, text, 0.0, 10.0, "seconds from 0 to 10"));
}

void run_up(UpOptions& options) {
  MachineRequest& request = options.request;
  request.name = options.common.machine_name();
  if (request.powercap_range > 0 && request.powercap.empty()) {
    throw UsageError("--powercap-range is where the counters of --powercap wrap; give both");
  }
  if (options.ideal && options.seed) throw UsageError("--seed is of the boards' differences, which --ideal takes away");
  request.seed = options.ideal ? 0 : options.seed.value_or(1);
  const RaisedMachine raised = raise_machine(request);
  const std::string description = raised.machine->shared().description;
  const std::string owner = foreign_owner(*raised.machine);
  if (options.common.json()) {
    const ordered_json json = {{"name", request.name},
                               {"description", description},
                               {"gpus", raised.machine->board_count()},
                               {"was_up", raised.was_up},
                               {"of_other_user", owner.empty() ? ordered_json() : ordered_json(owner)}};
    return print_result(json.dump(2) + "\n");
  }
  print_result(fmt::format("{} {}{}\nuse it in this shell:  eval \"$({} env{})\"\n", description,
                           raised.was_up ? "was up already" : "is up",
                           owner.empty() ? "" : fmt::format(", made by {}: only they and root can take it down", owner),
                           as_typed("flyball sim"), options.common.name ? " --name " + *options.common.name : ""));
}

void add_up(const Command& parent) {
  const Command command = parent.add_subcommand("up", "make a simulated machine that every process sees");
  const auto options = std::make_shared<UpOptions>();
  add_value(command, "--gpus", options->request.gpus, parse_board_count, "N", "number of boards, 1 to 16 (default 4)");
  const std::string models = fmt::format("GPU model (default a100): {}", fmt::join(gpu_models(), ", "));
  command.add_option("--model", options->request.gpu, models).type_name("NAME").suggests(gpu_models());
  command
      .add_option("--workload", options->request.workload,
                  "model whose forward and backward the boards work at, such as gpt3-1.3b")
      .type_name("NAME")
      .suggests(workload_models());
  add_value(command, "--time-scale", options->request.time_scale, parse_scale, "X",
            "simulated seconds per second (default 1); 0: time stands still until told");
  command.add_flag("--ideal", options->ideal,
                   "boards that are alike and exact: no noise, drift, ramps or spread of clock changes, and a power "
                   "limit that is not reached");
  add_value(command, "--seed", options->seed, parse_seed, "N", "other differences and other noise (default 1)");
  add_value(command, "--switch-latency", options->request.switch_latency, parse_latency, "S",
            "mean time in which a clock change takes hold (default 0.0066; with --ideal 0.01)");
  add_value(command, "--powercap", options->request.powercap, parse_folder, "DIR",
            "keep a simulated powercap tree (processor energy) there; a folder in memory is best");
  add_value(command, "--powercap-range", options->request.powercap_range, parse_range, "UJ",
            "value at which the counters of that tree wrap, in microjoules");
  add_common(command, options->common);
  command.footer(
      as_typed("A machine that is up with the same options is left as it is.\n\n"
               "Examples:\n"
               "  flyball sim up --gpus 4 --model a100\n"
               "  flyball sim up --model a40 --workload gpt3-1.3b --powercap /dev/shm/powercap\n"
               "  flyball sim up --name test --gpus 1 --time-scale 20"));
  command.callback([options] { run_up(*options); });
}

// down

void add_down(const Command& parent) {
  const Command command = parent.add_subcommand("down", "take a simulated machine down");
  const auto options = std::make_shared<CommonOptions>();
  add_common(command, *options);
  command.footer(as_typed("Programs that use it see their GPUs lost.\n\nExamples:\n  flyball sim down"));
  command.callback([options] {
    const bool was_up = lower_machine(options->machine_name());
    if (options->json()) return print_result(ordered_json({{"was_up", was_up}}).dump(2) + "\n");
    print_result(was_up ? "the simulated machine is down\n" : "no simulated machine was up\n");
  });
}

// status

struct BoardFigures {
  std::string product;
  std::string uuid;
  BoardActivity now;
  Watts sensed;
  Joules energy;
  double celsius = 0.0;
  double busy = 0.0;
  std::string lock;
  std::vector<std::string> faults;
  std::vector<int> processes;
};

BoardFigures board_figures(Machine& machine, std::size_t board) {
  BoardAccess access(machine, board);
  const BoardSpec& spec = access.spec();
  const BoardState& state = access.state();
  BoardFigures figures;
  figures.product = spec.product;
  figures.uuid = spec.uuid;
  figures.now = activity_of(spec, state);
  figures.sensed = reading_of(spec, state, spec.power);
  figures.energy = Joules(state.joules.value());
  figures.celsius = state.celsius;
  figures.busy = utilisation_of(spec, state).busy;
  if (state.applied.lock_maximum.value() > 0.0) {
    figures.lock = fmt::format("{:.0f}-{:.0f}", state.applied.lock_minimum.value(), state.applied.lock_maximum.value());
  }
  for (const SimFault& fault : state.faults) {
    if (fault.kind == SimFaultKind::kNone) continue;
    const std::string_view call = fault.call;
    figures.faults.push_back(fmt::format("{}{}{}", name_of(fault.kind), call.empty() ? "" : ":", call));
  }
  for (const SimProcess& process : state.processes) {
    if (process.pid != 0) figures.processes.push_back(process.pid);
  }
  access.commit();
  return figures;
}

std::string status_json(Machine& machine) {
  ordered_json boards = ordered_json::array();
  for (std::size_t i = 0; i < machine.board_count(); ++i) {
    const BoardFigures figures = board_figures(machine, i);
    boards.push_back({{"gpu", i},
                      {"name", figures.product},
                      {"uuid", figures.uuid},
                      {"sm_mhz", figures.now.sm_clock.value()},
                      {"memory_mhz", figures.now.memory_clock.value()},
                      {"locked", figures.lock},
                      {"true_power_w", figures.now.power.value()},
                      {"sensed_power_w", figures.sensed.value()},
                      {"true_energy_j", figures.energy.value()},
                      {"temperature_c", figures.celsius},
                      {"utilisation", figures.busy},
                      {"faults", figures.faults},
                      {"processes", figures.processes}});
  }
  const ordered_json json = {{"name", machine.name()},
                             {"description", machine.shared().description},
                             {"owner_uid", machine.owner()},
                             {"time_s", to_seconds(machine.now()).value()},
                             {"time_scale", machine.shared().time_scale},
                             {"powercap", machine.shared().powercap},
                             {"gpus", std::move(boards)}};
  return json.dump(2) + "\n";
}

std::string status_text(Machine& machine) {
  TextTable table({"gpu", "<name", "clock (MHz)", "locked (MHz)", "power (W)", "sensed (W)", "energy (J)",
                   "temperature (C)", "processes", "<faults"});
  for (std::size_t i = 0; i < machine.board_count(); ++i) {
    const BoardFigures figures = board_figures(machine, i);
    table.add_row({fmt::to_string(i), figures.product, format_fixed(figures.now.sm_clock.value(), 0),
                   figures.lock.empty() ? "-" : figures.lock, format_fixed(figures.now.power.value(), 1),
                   format_fixed(figures.sensed.value(), 1), format_fixed(figures.energy.value(), 1),
                   format_fixed(figures.celsius, 0), fmt::to_string(figures.processes.size()),
                   fmt::format("{}", fmt::join(figures.faults, ", "))});
  }
  const std::string owner = foreign_owner(machine);
  return fmt::format("{}, up for {:.1f} simulated seconds{}\n\n{}", machine.shared().description,
                     to_seconds(machine.now() - kSimStart).value(), owner.empty() ? "" : ", made by " + owner,
                     table.str());
}

void add_status(const Command& parent) {
  const Command command = parent.add_subcommand("status", "what a simulated machine does right now");
  const auto options = std::make_shared<CommonOptions>();
  add_common(command, *options);
  command.footer(
      as_typed("'power' and 'energy' are what the boards really draw, 'sensed' is what their\n"
               "sensors show.\n\n"
               "Examples:\n"
               "  flyball sim status\n"
               "  flyball sim status --format json"));
  command.callback([options] {
    const std::shared_ptr<Machine> machine = required_machine(options->machine_name());
    print_result(options->json() ? status_json(*machine) : status_text(*machine));
  });
}

// env

void add_env(const Command& parent) {
  const Command command = parent.add_subcommand("env", "shell lines that let programs see the simulated machine");
  const auto options = std::make_shared<CommonOptions>();
  add_common(command, *options);
  command.footer(as_typed("Examples:\n  eval \"$(flyball sim env)\"\n  flyball sim env --format json"));
  command.callback([options] {
    const std::shared_ptr<Machine> machine = required_machine(options->machine_name());
    const std::string folder = simulated_library_folder();
    const char* before = std::getenv("LD_LIBRARY_PATH");
    std::string path = folder;
    // The folder stands in the path once, however often the lines are evaluated.
    if (before != nullptr && *before != '\0') {
      const std::string others = before;
      path = others == folder || others.starts_with(folder + ":") ? others : folder + ":" + others;
    }
    ordered_json variables = {{"LD_LIBRARY_PATH", path}, {"FLYBALL_SIM", machine->name()}};
    const std::string powercap = machine->shared().powercap;
    if (!powercap.empty()) variables["FLYBALL_POWERCAP_ROOT"] = powercap;
    if (options->json()) return print_data(variables.dump(2) + "\n");
    std::string text;
    for (const auto& [name, value] : variables.items())
      text += fmt::format("export {}={}\n", name, shell_quoted(value.get<std::string>()));
    print_data(text);
  });
}

// work

struct WorkOptions {
  CommonOptions common;
  std::optional<std::size_t> gpu;
  std::optional<Seconds> seconds;
  std::optional<std::string> kind;
};

// Lets the GPU wait in a collective for so many simulated seconds.
WorkRun wait_blocked(Machine& machine, std::size_t gpu, Seconds span) {
  const auto look = [&] {
    BoardAccess access(machine, gpu);
    const WorkRun run{WorkResult::kDone, access.state().now, access.state().now, Joules(access.state().joules.value())};
    access.commit();
    return run;
  };
  if (!change_blocking(machine, gpu, 1)) return {WorkResult::kFull, 0, 0, {}};
  const WorkRun before = look();
  const Nanoseconds end = before.begin + to_nanoseconds(span);
  while (machine.now() < end && !machine.down()) {
    machine.wait(gpu, machine.shared().boards[gpu].changes.load(), machine.wall_time_of(end));
  }
  const WorkRun after = look();
  (void)change_blocking(machine, gpu, -1);
  if (machine.down()) return {WorkResult::kNoMachine, 0, 0, {}};
  return {WorkResult::kDone, before.begin, after.end, after.energy - before.energy};
}

void run_work(const WorkOptions& options) {
  const std::shared_ptr<Machine> machine = required_machine(options.common.machine_name());
  const std::size_t gpu = options.gpu.value_or(0);
  require_board(*machine, gpu);
  const Seconds seconds = options.seconds.value_or(Seconds(1));
  const std::string kind = options.kind.value_or("forward");
  const std::optional<WorkKind> work = work_named(machine->spec(gpu), kind);
  const WorkRun run = work ? do_work(*machine, gpu, *work, seconds) : wait_blocked(*machine, gpu, seconds);
  switch (run.result) {
    case WorkResult::kDone: break;
    case WorkResult::kLost: throw SystemError(fmt::format("simulated GPU {} is lost", gpu));
    case WorkResult::kNoMachine: throw SystemError("the simulated machine was taken down");
    case WorkResult::kFull: throw SystemError(fmt::format("too much runs on simulated GPU {} already", gpu));
  }
  const Seconds time = to_seconds(run.end - run.begin);
  if (options.common.json()) {
    const ordered_json json = {
        {"gpu", gpu}, {"kind", kind}, {"time_s", time.value()}, {"energy_j", run.energy.value()}};
    return print_result(json.dump(2) + "\n");
  }
  print_result(fmt::format("GPU {}: {} took {:.4f} s and {:.2f} J ({:.1f} W)\n", gpu, kind, time.value(),
                           run.energy.value(), (run.energy / time).value()));
}

void add_work(const Command& parent) {
  const Command command = parent.add_subcommand("work", "put a load on a simulated GPU and wait until it is done");
  const auto options = std::make_shared<WorkOptions>();
  add_value(command, "--gpu", options->gpu, parse_index, "INDEX", "index of the board (default 0)");
  add_value(command, "--seconds", options->seconds, parse_duration, "TIME",
            "time that the load takes at the maximum clock, such as 5 or 250ms (default 1)");
  add_choice(command, "--kind", options->kind, {"forward", "backward", "transfer", "load", "blocking"}, "NAME",
             "kind of load: forward (default), backward, transfer, load, or blocking: waiting in a collective");
  add_common(command, options->common);
  command.footer(
      as_typed("Examples:\n"
               "  flyball sim work --gpu 0 --seconds 5\n"
               "  flyball sim work --gpu 1 --kind backward --seconds 250ms --format json"));
  command.callback([options] { run_work(*options); });
}

// fault

struct FaultOptions {
  CommonOptions common;
  std::vector<std::string> faults;
  std::optional<std::size_t> gpu;
  bool clear = false;
};

[[noreturn]] void refuse_fault(const std::string& text) {
  const std::string call(call_in_fault(text));
  const auto calls = fault_calls();
  if (!call.empty() && call != "*" && std::find(calls.begin(), calls.end(), call) == calls.end()) {
    const std::string nearest = nearest_name(call, std::vector<std::string>(calls.begin(), calls.end()));
    throw UsageError(fmt::format("'{}': the simulated library has no call {} that could fail{}", text, call,
                                 nearest.empty() ? "; * is every call" : fmt::format("; did you mean {}?", nearest)));
  }
  throw UsageError(fmt::format("'{}' is no fault; see: {} fault --help", text, as_typed("flyball sim")));
}

void run_fault(const FaultOptions& options) {
  const std::shared_ptr<Machine> machine = required_machine(options.common.machine_name());
  const std::size_t gpu = options.gpu.value_or(0);
  require_board(*machine, gpu);
  if (options.faults.empty() && !options.clear)
    throw UsageError(as_typed("name a fault, or --clear; see: flyball sim fault --help"));
  std::vector<SimFault> parsed;
  for (const std::string& text : options.faults) {
    const std::optional<SimFault> fault = parse_fault(text);
    if (!fault) refuse_fault(text);
    parsed.push_back(*fault);
  }
  if (options.clear) take_faults_back(*machine, gpu);
  for (const SimFault& fault : parsed) {
    if (!do_fault(*machine, gpu, fault)) throw SystemError(fmt::format("too many faults on simulated GPU {}", gpu));
  }
}

void add_fault_command(const Command& parent) {
  const Command command = parent.add_subcommand("fault", "let a simulated GPU fail");
  const auto options = std::make_shared<FaultOptions>();
  command.add_option("FAULT", options->faults, "faults to add, see below");
  add_value(command, "--gpu", options->gpu, parse_index, "INDEX", "index of the board (default 0)");
  command.add_flag("--clear", options->clear, "first take back all faults of the board");
  add_common(command, options->common, false);
  command.footer(as_typed(
      "Faults:\n"
      "  lost               every call answers that the GPU is lost; its work fails\n"
      "  error:CALL=CODE    that NVML call answers that number; * is every call on a GPU\n"
      "  hang:CALL=SECONDS  that NVML call does not return for so long\n"
      "  counter-frozen     the energy counter stands still\n"
      "  counter-wraps=MJ   the energy counter restarts at so many millijoules\n"
      "  counter-reset      the energy counter is zero now\n"
      "  counter-missing    there is no energy counter, as before Volta\n"
      "  counter-costs=S    a reading of the energy counter takes S seconds of processor time (an H100: 0.0025)\n"
      "  unprivileged       root is refused, unless FLYBALL_SIM_PRIVILEGED=1\n"
      "  hot                thermal throttling\n"
      "  mig                the board says that it is divided into instances (A100, H100)\n"
      "  early-answer=S     calls that set clocks answer at once; the change takes hold S seconds later\n\n"
      "Examples:\n"
      "  flyball sim fault --gpu 1 lost\n"
      "  flyball sim fault error:nvmlDeviceSetGpuLockedClocks=4\n"
      "  flyball sim fault --gpu 1 --clear"));
  command.callback([options] { run_fault(*options); });
}

// powercap: what sim up starts

void add_powercap(const Command& parent) {
  const Command command = parent.add_subcommand("powercap", "write a machine's powercap tree (sim up starts this)");
  const auto options = std::make_shared<CommonOptions>();
  add_common(command, *options, false);
  command.hide();
  command.callback([options] {
    const std::shared_ptr<Machine> machine = required_machine(options->machine_name());
    if (machine->shared().powercap[0] == '\0') throw UsageError("this simulated machine has no powercap tree");
    run_powercap_writer(*machine);
  });
}

}  // namespace

void add_sim_commands(const Command& parent) {
  add_up(parent);
  add_down(parent);
  add_status(parent);
  add_env(parent);
  add_work(parent);
  add_fault_command(parent);
  add_powercap(parent);
}

void add_sim_command(const Command& program) {
  add_sim_commands(program.add_subcommand("sim", "simulated GPUs behind the vendor's own interface"));
}

}  // namespace flyball
