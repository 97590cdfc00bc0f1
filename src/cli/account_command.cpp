// flyball account: joules per tensor, layer and module, from an event trace and a power trace.
#include "cli/account_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "account/account_options.h"
#include "account/energy_tree.h"
#include "account/footprint_file.h"
#include "account/self_similar.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "base/time_text.h"
#include "cli/account_output.h"
#include "cli/account_program.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "cli/tariff_options.h"
#include "draw/scale.h"
#include "forecast/forecast.h"
#include "report/account_trace.h"
#include "report/footprint_pprof.h"
#include "report/footprint_report.h"
#include "report/footprint_speedscope.h"

namespace flyball {
namespace {

// Splits "GPU:0=GPU:4", as an option that may be given several times has it, into the name and what it is to become.
// Throws UsageError.
std::pair<std::string, std::string> named_value(const char* option, const std::string& text, const char* wanted) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{}: expected {}, got '{}'", option, wanted, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_parsed(const Command& command, const char* option, const char* type, const char* description,
                const std::function<void(const std::string&)>& parse) {
  command.add_option_function(option, parse, description).type_name(type);
}

template <class Map, class Parse>
void add_named(const Command& command, const char* option, Map& target, const Parse& parse, const char* type,
               const char* example, const std::string& description) {
  const std::string wanted = fmt::format("{}, such as {}", type, example);
  command
      .add_list_function(
          option,
          [=, &target](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const auto [name, value] = named_value(option, text, wanted.c_str());
              if (!target.emplace(name, parse(value)).second) {
                throw UsageError(fmt::format("{}: '{}' is given twice", option, name));
              }
            }
          },
          description)
      .type_name(type)
      .one_value_each();
}

void parse_clock_offset(std::string_view text, AccountOptions& options) {
  if (text == "auto") {
    options.estimate_clock_offset = true;
    return;
  }
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const std::optional<double> seconds = parse_duration_seconds(digits);
  if (!seconds) {
    throw UsageError(fmt::format("--clock-offset: expected 'auto' or a time such as -1.5s, got '{}'", text));
  }
  options.clock_offset = Seconds(negative ? -*seconds : *seconds);
}

Seconds parse_zone(std::string_view text) {
  const std::optional<Seconds> ahead = parse_utc_offset(text);
  if (!ahead) throw UsageError(fmt::format("--utc-offset: expected +01:00 or the like, got '{}'", text));
  return *ahead;
}

// Shows on the console what the engine tells, one line of progress at a time.
class AccountConsole {
 public:
  [[nodiscard]] AccountListener listener() {
    return {[this](std::string_view doing, double share) {
              if (doing != doing_) {
                bar_.reset();  // erases its line
                bar_.emplace(doing_ = doing);
              }
              bar_->update(share);
            },
            [this](const std::string& text) {
              bar_.reset();
              doing_.clear();
              print_warning(text);
            }};
  }

 private:
  std::string doing_;
  std::optional<ProgressBar> bar_;
};

// Writes the Chrome trace while its events are told, where one is asked for.
AccountResult account_and_trace(AccountRequest& request, const std::optional<std::string>& trace_path) {
  if (!trace_path) return account_runs(request, AccountConsole().listener());
  if (request.runs.size() > 1 || request.ranks) {
    throw UsageError("--chrome shows the events of one run; give --events and --power once, without --ranks");
  }
  AccountResult result;
  write_file_by(*trace_path, [&](std::ostream& file) {
    AccountTrace trace(file);
    request.each_event = &trace;
    result = account_runs(request, AccountConsole().listener());
    if (const std::optional<std::string> left_out = trace.finish()) result.notes.push_back(*left_out);
  });
  return result;
}

// What the measured energy costs and emits, or nothing if neither was asked for.
void note_bill(const AccountArguments& arguments, Joules measured, FootprintNotes& notes) {
  const double kwh = kilowatt_hours(measured);
  std::vector<std::string> parts;
  if (arguments.price) {
    parts.push_back(fmt::format("costs {} at {} a kWh", short_number(kwh * *arguments.price), *arguments.price));
  }
  if (arguments.carbon_g_per_kwh) {
    parts.push_back(fmt::format("emits {} g of CO2 at {} g a kWh", short_number(kwh * *arguments.carbon_g_per_kwh),
                                *arguments.carbon_g_per_kwh));
  }
  if (!parts.empty()) {
    notes.push_back(fmt::format("the measured energy, {} kWh, {}", short_number(kwh), fmt::join(parts, " and ")));
  }
}

}  // namespace

void run_account(const AccountArguments& arguments, const std::string& command_line,
                 std::optional<std::string_view> power_text) {
  if (arguments.account.events.empty() || arguments.account.power.empty()) {
    throw UsageError("account: --events and --power are required\n  see: flyball account --help");
  }
  AccountRequest request = account_request(arguments.account, kAccountOptionNames);
  request.runs.front().power_text = power_text;
  request.summary = arguments.account.summary || arguments.html;
  request.tree = arguments.svg || arguments.html;
  request.picture = arguments.html.has_value();
  AccountResult result = account_and_trace(request, arguments.chrome);
  note_bill(arguments, result.footprint.measured(), result.notes);
  const Footprint& footprint = result.footprint;
  const FootprintNotes& notes = result.notes;
  const Footprint& shown = arguments.account.summary ? result.summary : footprint;

  if (arguments.json) write_text_file(*arguments.json, footprint_json(shown, notes));
  if (arguments.csv) write_text_file(*arguments.csv, footprint_csv(shown));
  if (arguments.svg) write_diagram_svg(result.tree, arguments.module.value_or(""), *arguments.svg);
  if (arguments.pprof) write_text_file(*arguments.pprof, footprint_pprof(footprint));
  const std::string title = fmt::format("Energy account: {}", fmt::join(arguments.account.events, ", "));
  if (arguments.speedscope) write_text_file(*arguments.speedscope, footprint_speedscope(footprint, title));
  if (arguments.html) {
    FootprintPage page = footprint_page(title, result);
    page.commands = {command_line};
    write_text_file(*arguments.html, footprint_html(page));
  }
  const auto print = arguments.to_standard_error ? print_report : print_result;
  const auto top = static_cast<std::size_t>(arguments.top.value_or(20));
  if (arguments.format == "json") return print(footprint_json(shown, notes));
  if (arguments.order != "power") return print(footprint_text(shown, notes, top));
  Footprint by_power = shown;
  std::stable_sort(by_power.rows.begin(), by_power.rows.end(),
                   [](const FootprintRow& a, const FootprintRow& b) { return a.mean_power() > b.mean_power(); });
  print(footprint_text(by_power, notes, top));
}

void add_footprint_options(const Command& command, AccountArguments& arguments) {
  AccountOptions& options = arguments.account;
  const auto same = [](const std::string& text) { return text; };
  command
      .add_option(
          "--events", options.events,
          "event trace of TensorFlow, PyTorch, JAX, Chrome or Nsight Systems (as SQLite); for several runs or ranks, "
          "one trace of each")
      .type_name("FILE");
  command
      .add_option("--jiffies", options.jiffies,
                  "jiffies trace that 'flyball record --jiffies' wrote; the energy of processors and their memory is "
                  "first divided between the program and all else that ran")
      .type_name("FILE");
  add_named(command, "--event-device", options.event_devices, same, "NAME=DEVICE", "python=CPU:0",
            "the device that the event trace calls NAME: GPU:0=GPU:4 under CUDA_VISIBLE_DEVICES=4");
  add_named(
      command, "--power-device", options.power_devices, same, "NAME=DEVICE", "CPU:1=CPU:0",
      "the device that the power trace calls NAME; the powers of names that become one device are added: CPU:1=CPU:0");
  add_named_choice<ChromeDevice>(
      command, "--chrome-device", options.chrome_device, "NAME",
      "what in a Chrome trace has a device's name: process (default), thread, or none: everything ran on CPU:0");
  add_named(
      command, "--counter-range", options.counter_ranges,
      [](const std::string& text) { return Joules(parse_positive("--counter-range", text)); }, "NAME=JOULES",
      "CPU:0=262143.32885", "value at which a counter of the power trace returns to 0: CPU:0=262143.32885 for RAPL");
  add_named(
      command, "--static-power", options.static_powers,
      [](const std::string& text) {
        const std::string_view number = std::string_view(text).substr(0, text.size() - (text.ends_with('W') ? 1 : 0));
        return Watts(parse_number_within("--static-power", number, 0.0, 1e6, "a power in watts"));
      },
      "NAME=WATTS", "GPU:0=80W",
      "what a device draws while nothing runs, by which static and dynamic energy are told apart (default: found where "
      "nothing ran for long enough)");
  add_parsed(command, "--utc-offset", "HH:MM",
             "how far local time was ahead of UTC, for local times in the power trace, as nvidia-smi writes them: "
             "+01:00 (default +00:00)",
             [&options](const std::string& text) { options.utc_offset = parse_zone(text); });
  add_parsed(command, "--row-period", "TIME",
             "time between two rows of a power trace without times, as dcgmi dmon writes it (default 1s)",
             [&options](const std::string& text) { options.row_period = parse_duration("--row-period", text); });
  add_named_choice<AccountMethod>(
      command, "--method", options.method, "NAME",
      "how operations are given their power: auto (default): by what fits the traces, for each device; sweep: "
      "operations that run at the same time share it; regress: fitted to all readings, for kernels far shorter "
      "than the sensor's window; both: the sweep, corrected by fitted powers, for counters");
  add_value(command, "--sensor-window", options.sensor_window, parse_duration_or_zero, "TIME",
            "with --method auto or regress: time over which a power reading averages, such as 100ms (default 0: the "
            "time since the last reading)");
  add_named_choice<Multiplicity>(
      command, "--share", options.share, "NAME",
      "what has a share of a device's power at each moment: operations (default): every distinct operation once; "
      "events: every event");
  add_parsed(command, "--clock-offset", "TIME",
             "time to add to the events' times; auto: it is searched. Default: 0 if the traces overlap, which is "
             "checked; else auto",
             [&options](const std::string& text) { parse_clock_offset(text, options); });
  add_parsed(command, "--similar", "PATTERN",
             "ECMAScript pattern of layers that are built alike: where it matches, numbers become * (default: layer_3, "
             "layers.3, h.3, ...)",
             [&options](const std::string& text) { options.similar = parse_path("--similar", text); });
  command.add_flag("--summary", options.summary, "add up self-similar layers in the text, JSON and CSV");
  command.add_flag("--kernels", options.kernels, "show GPU kernels below the operations that launched them");
  command.add_flag("--frames", options.frames,
                   "count the time and energy that modules spend outside of all operations, too");
  command.add_flag(
      "--ranks", options.ranks,
      "the event traces are of the ranks of one job, which are added up; one --power for all ranks, or one "
      "for each");
  add_constant_tariff_options(command, arguments.price, arguments.carbon_g_per_kwh);
  add_value(command, "--batch", options.batch, parse_count, "N",
            "number of samples that a step trains on, on all ranks together: says the joules of a sample, too");
  add_value(command, "--top", arguments.top, parse_count, "N", "number of rows in the text (default 20)");
  add_choice(command, "--order", arguments.order, {"energy", "power"}, "NAME",
             "which rows of the text come first: those of most energy (default), or of most mean power");
  add_value(command, "--json", arguments.json, parse_path, "FILE", "write the footprint as JSON");
  add_value(command, "--csv", arguments.csv, parse_path, "FILE", "write the footprint as CSV");
  add_value(command, "--html", arguments.html, parse_path, "FILE", "write diagrams, power trace and tables as a page");
  add_value(command, "--svg", arguments.svg, parse_path, "FILE", "write one energy diagram as SVG (needs Graphviz)");
  add_value(command, "--module", arguments.module, parse_path, "MODULE",
            "with --svg: module to draw, such as bert/encoder (default: the model)");
  add_value(command, "--pprof", arguments.pprof, parse_path, "FILE", "write a profile for pprof");
  add_value(command, "--speedscope", arguments.speedscope, parse_path, "FILE",
            "write a profile for speedscope: joules and busy seconds");
  add_value(command, "--chrome", arguments.chrome, parse_path, "FILE",
            "write a Chrome trace for ui.perfetto.dev: every event with its joules, and each device's power");
  add_format(command, arguments.format);
}

namespace {

void add_diff(const Command& parent) {
  struct DiffOptions {
    std::string a, b;
    std::optional<std::string> similar;
    std::optional<int> top;
    std::optional<std::string> format;
    bool summary = false;
  };
  const Command command = parent.add_subcommand("diff", "compare two footprints");
  const auto options = std::make_shared<DiffOptions>();
  command.add_option("A", options->a, "first footprint: JSON that 'flyball account' wrote")
      .type_name("FILE")
      .required();
  command.add_option("B", options->b, "second footprint").type_name("FILE").required();
  command.add_flag("--summary", options->summary, "add up self-similar layers first");
  add_value(command, "--similar", options->similar, parse_path, "PATTERN",
            "pattern of layers that are built alike, as in 'flyball account'");
  add_value(command, "--top", options->top, parse_count, "N", "number of the largest changes to show (default 20)");
  add_format(command, options->format);
  command.footer(
      "Examples:\n"
      "  flyball account diff before.json after.json\n"
      "  flyball account diff bert.json albert.json --summary --top 10");
  command.callback([options] {
    const InterruptExit interrupt_exit;
    std::optional<WorkLine> line("comparing footprints");
    Footprint a = read_footprint_file(options->a);
    Footprint b = read_footprint_file(options->b);
    if (options->summary || options->similar) {
      const SelfSimilar similar = options->similar ? SelfSimilar(*options->similar) : SelfSimilar();
      a = summarised(a, similar);
      b = summarised(b, similar);
    }
    const FootprintComparison comparison = compare(a, b);
    line.reset();
    const auto top = static_cast<std::size_t>(options->top.value_or(20));
    print_result(options->format == "json" ? comparison_json(comparison) : comparison_text(comparison, top));
  });
}

void add_quality(const Command& parent) {
  struct QualityOptions {
    std::vector<std::string> runs;
    std::optional<std::string> similar;
    std::optional<std::string> format;
  };
  const Command command = parent.add_subcommand("quality", "how far a footprint can be trusted: ASSS, ASSW, stability");
  const auto options = std::make_shared<QualityOptions>();
  command.add_option("RUN", options->runs, "footprint JSON, or a folder with events.json[.gz] and power.csv[.gz]")
      .type_name("FILE")
      .required();
  add_value(command, "--similar", options->similar, parse_path, "PATTERN",
            "pattern of layers that are built alike, as in 'flyball account'");
  add_format(command, options->format);
  command.footer(
      "All figures are Pearson correlations of summarised footprints. ASSS (of folders\n"
      "only): with the footprint of fewer power readings; close to 1 if the readings\n"
      "are dense enough. ASSW: of the mean of the first runs with the mean of all runs.\n"
      "Stability: of each run with each other run.\n\n"
      "Examples:\n"
      "  flyball account quality run1/ run2/ run3/\n"
      "  flyball account quality run1.json run2.json");
  command.callback([options] {
    const InterruptExit interrupt_exit;
    const SelfSimilar similar = options->similar ? SelfSimilar(*options->similar) : SelfSimilar();
    const QualityFigures figures = measure_quality(options->runs, similar, AccountConsole().listener());
    print_result(options->format == "json" ? quality_json(figures) : quality_text(figures));
  });
}

[[noreturn]] void throw_unexpected(const std::string& word) {
  const std::vector<std::string> known = {"diff", "quality", "start", "stop", "read", "list", "drop"};
  const std::string meant = nearest_name(word, known);
  throw UsageError(fmt::format(
      "account: unexpected {}{}\n  see: flyball account --help", word,
      meant.empty() ? "; a program with its options stands after --" : fmt::format("; did you mean {}?", meant)));
}

}  // namespace

void add_account_command(const Command& program, const std::string& command_line) {
  const Command command = program.add_subcommand("account", "joules per tensor, layer and module of a model");
  const auto options = std::make_shared<AccountArguments>();
  const auto program_options = std::make_shared<ProgramAccountOptions>();
  command.add_option("--power", options->account.power, "power trace, one for every event trace").type_name("FILE");
  add_footprint_options(command, *options);
  add_program_account_options(command, *program_options);
  add_diff(command);
  add_quality(command);
  add_session_commands(command, command_line);
  command.footer(
      "With a program, some steps of its training with PyTorch are profiled, in all of its\n"
      "processes, and power is recorded. The program's own input, output and exit status\n"
      "are left as they are; the account goes to standard error.\n\n"
      "Examples:\n"
      "  flyball account --html account.html -- python train.py\n"
      "  flyball account --steps 50 -- torchrun --nproc-per-node 8 train.py\n"
      "  flyball record -o power.csv -- python train.py      # which writes trace.json\n"
      "  flyball account --events trace.json.gz --power power.csv\n"
      "  flyball account --events trace.json --power power.csv --html account.html\n"
      "  flyball account --events t.json --power p.csv --sensor-window 100ms\n"
      "  flyball account start epoch; python train.py; flyball account stop epoch\n"
      "  flyball account read epoch --events trace.json      # recorded by the agent");
  command.callback([command, options, program_options, command_line] {
    if (command.subcommand_is_given()) return;
    const std::vector<std::string>& words = program_options->measuring.command;
    if (!words.empty()) {
      // Without "--" it is a subcommand that was mistyped, or a trace without its option.
      if (command_line.find(" -- ") == std::string::npos) throw_unexpected(words.front());
      account_program(*options, *program_options, command_line);
    }
    if (program_options->is_given()) {
      throw UsageError(
          "account: --steps, --warmup, --folder, --gpus, --no-cpu and --period are for a program; give one after --, "
          "or "
          "drop them");
    }
    const InterruptExit interrupt_exit;
    run_account(*options, command_line);
  });
}

}  // namespace flyball
