// flyball account: joules per tensor, layer and module, from an event trace and a power trace.
#include "cli/account_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "account/account_run.h"
#include "account/energy_tree.h"
#include "account/footprint_file.h"
#include "account/self_similar.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/account_output.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "report/footprint_pprof.h"
#include "report/footprint_report.h"
#include "trace/trace_time.h"

namespace flyball {
namespace {

// NAME=VALUE, given several times.
std::map<std::string, std::string, std::less<>> named_values(const char* option, const std::vector<std::string>& given,
                                                             const char* wanted) {
  std::map<std::string, std::string, std::less<>> values;
  for (const std::string& text : given) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError(fmt::format("{}: expected {}, got '{}'", option, wanted, text));
    }
    const std::string name = text.substr(0, equals);
    if (!values.emplace(name, text.substr(equals + 1)).second) {
      throw UsageError(fmt::format("{}: '{}' is given twice", option, name));
    }
  }
  return values;
}

AccountSettings settings_of(const AccountOptions& options) {
  AccountSettings settings;
  settings.regress = options.method == "regress";
  settings.sensor_window = options.sensor_window.value_or(Seconds(0));
  if (options.sensor_window && !settings.regress) {
    throw UsageError("--sensor-window is for --method regress; drop it, or add that");
  }
  if (options.share == "events") settings.multiplicity = Multiplicity::kEvents;
  if (options.clock_offset == "auto") {
    settings.estimate_offset = true;
  } else if (options.clock_offset) {
    std::string_view text = *options.clock_offset;
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    const std::optional<double> seconds = parse_duration_seconds(text);
    if (!seconds) {
      throw UsageError(
          fmt::format("--clock-offset: expected 'auto' or a time such as -1.5s, got '{}'", *options.clock_offset));
    }
    settings.clock_offset = Seconds(negative ? -*seconds : *seconds);
  }
  settings.events.device_names =
      named_values("--event-device", options.event_devices, "NAME=DEVICE, such as python=CPU:0");
  settings.events.kernel_names = options.kernels;
  settings.events.frames = options.frames;
  if (options.chrome_device == "thread") settings.events.chrome_device = ChromeDevice::kThread;
  if (options.chrome_device == "none") settings.events.chrome_device = ChromeDevice::kNone;
  settings.power.device_names =
      named_values("--power-device", options.power_devices, "NAME=DEVICE, such as CPU:1=CPU:0");
  for (const auto& [name, joules] :
       named_values("--counter-range", options.counter_ranges, "NAME=JOULES, such as CPU:0=262143.32885")) {
    settings.power.counter_ranges[name] = Joules(parse_positive("--counter-range", joules));
  }
  if (options.utc_offset) {
    const std::optional<Seconds> ahead = parse_utc_offset(*options.utc_offset);
    if (!ahead)
      throw UsageError(fmt::format("--utc-offset: expected +01:00 or the like, got '{}'", *options.utc_offset));
    settings.power.utc_offset = *ahead;
  }
  if (options.row_period) settings.power.row_period = *options.row_period;
  return settings;
}

// What the engine tells, on the console: one line of progress at a time.
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

}  // namespace

void run_account(const AccountOptions& options, const std::string& command_line) {
  if (options.events.empty() || options.power.empty()) {
    throw UsageError("account: --events and --power are required\n  see: flyball account --help");
  }
  if (options.events.size() != options.power.size()) {
    throw UsageError(fmt::format("account: {} but {}; give one power trace for every event trace",
                                 counted(std::ssize(options.events), "event trace"),
                                 counted(std::ssize(options.power), "power trace")));
  }
  if (!options.jiffies.empty() && options.jiffies.size() != options.events.size()) {
    throw UsageError("account: give one --jiffies for every event trace, or none");
  }
  AccountRequest request;
  request.settings = settings_of(options);
  if (options.similar) request.similar = SelfSimilar(*options.similar);
  for (std::size_t i = 0; i < options.events.size(); ++i) {
    request.runs.push_back({options.events[i], options.power[i], options.jiffies.empty() ? "" : options.jiffies[i]});
  }
  request.summary = options.summary || options.html;
  request.tree = options.svg || options.html;
  request.picture = options.html.has_value();
  const AccountResult result = account_runs(request, AccountConsole().listener());
  const auto& [footprint, summary, tree, picture, notes] = result;
  const Footprint& shown = options.summary ? summary : footprint;

  if (options.json) write_text_file(*options.json, footprint_json(shown, notes));
  if (options.csv) write_text_file(*options.csv, footprint_csv(shown));
  if (options.svg) write_diagram_svg(tree, options.module.value_or(""), *options.svg);
  if (options.pprof) write_text_file(*options.pprof, footprint_pprof(footprint));
  if (options.html) {
    FootprintPage page;
    page.title = fmt::format("Energy account: {}", fmt::join(options.events, ", "));
    page.footprint = &footprint;
    page.summary = &summary;
    page.tree = &tree;
    page.power = picture;
    page.notes = notes;
    page.commands = {command_line};
    write_text_file(*options.html, footprint_html(page));
  }
  const auto top = static_cast<std::size_t>(options.top.value_or(20));
  print_result(options.format == "json" ? footprint_json(shown, notes) : footprint_text(shown, notes, top));
}

void add_footprint_options(CLI::App& command, AccountOptions& options) {
  command.add_option("--events", options.events, "event trace of TensorFlow, PyTorch or Chrome; several: several runs")
      ->type_name("FILE");
  command
      .add_option("--jiffies", options.jiffies, "of 'flyball record --jiffies': a processor's energy is divided first")
      ->type_name("FILE");
  command
      .add_option("--event-device", options.event_devices,
                  "which device it is that the event trace calls NAME: GPU:0=GPU:4 under CUDA_VISIBLE_DEVICES=4")
      ->type_name("NAME=DEVICE")
      ->allow_extra_args(false);
  command
      .add_option("--power-device", options.power_devices,
                  "the same of the power trace; what becomes one device is added up: CPU:1=CPU:0")
      ->type_name("NAME=DEVICE")
      ->allow_extra_args(false);
  add_choice(command, "--chrome-device", options.chrome_device, {"process", "thread", "none"}, "NAME",
             "what of a Chrome trace names the device (default process; none: all of it is CPU:0)");
  command
      .add_option("--counter-range", options.counter_ranges,
                  "where a counter of the power trace begins anew: CPU:0=262143.32885 of RAPL")
      ->type_name("NAME=JOULES")
      ->allow_extra_args(false);
  add_value(command, "--utc-offset", options.utc_offset, parse_path, "HH:MM",
            "of local times in the power trace, as nvidia-smi writes them: +01:00 (default +00:00)");
  add_value(command, "--row-period", options.row_period, parse_duration, "TIME",
            "between rows of a power trace without times, as dcgmi dmon writes it (default 1s)");
  add_choice(command, "--method", options.method, {"sweep", "regress"}, "NAME",
             "sweep (default); regress: for kernels far shorter than the sensor's window");
  add_value(command, "--sensor-window", options.sensor_window, parse_duration_or_zero, "TIME",
            "regress: what one power reading averages over, such as 100ms (default 0: the time since the last)");
  add_choice(command, "--share", options.share, {"operations", "events"}, "NAME",
             "who shares power: distinct operations (default) or events");
  add_value(command, "--clock-offset", options.clock_offset, parse_path, "TIME",
            "add to the events' times; auto: find it. Default: 0 where the traces overlap, checked; else auto");
  add_value(command, "--similar", options.similar, parse_path, "PATTERN",
            "layers built alike: in what matches, numbers count as one (default: layer_3, layers.3, h.3, ...)");
  command.add_flag("--summary", options.summary, "add up self-similar layers in the text, JSON and CSV");
  command.add_flag("--kernels", options.kernels, "GPU kernels as tensors of their own");
  command.add_flag("--frames", options.frames, "count modules' own time outside every operation, too");
  add_value(command, "--top", options.top, parse_count, "N", "rows of the text (default 20)");
  add_value(command, "--json", options.json, parse_path, "FILE", "write the footprint as JSON");
  add_value(command, "--csv", options.csv, parse_path, "FILE", "write the footprint as CSV");
  add_value(command, "--html", options.html, parse_path, "FILE", "write diagrams, power trace and tables as a page");
  add_value(command, "--svg", options.svg, parse_path, "FILE", "write one energy diagram as SVG (needs Graphviz)");
  add_value(command, "--module", options.module, parse_path, "PATH", "which one: bert/encoder (default the model)");
  add_value(command, "--pprof", options.pprof, parse_path, "FILE", "write a profile for pprof and speedscope");
  add_choice(command, "--format", options.format, {"text", "json"}, "NAME", "text (default) or json");
}

namespace {

void add_diff(CLI::App& parent) {
  struct DiffOptions {
    std::string a, b;
    std::optional<std::string> similar;
    std::optional<int> top;
    std::optional<std::string> format;
    bool summary = false;
  };
  CLI::App* command = parent.add_subcommand("diff", "compare two footprints");
  const auto options = std::make_shared<DiffOptions>();
  command->add_option("A", options->a, "a footprint: JSON of 'flyball account'")->required();
  command->add_option("B", options->b, "the other")->required();
  command->add_flag("--summary", options->summary, "add up self-similar layers first");
  add_value(*command, "--similar", options->similar, parse_path, "PATTERN", "what is self-similar, as for account");
  add_value(*command, "--top", options->top, parse_count, "N", "how many of the largest changes (default 20)");
  add_choice(*command, "--format", options->format, {"text", "json"}, "NAME", "text (default) or json");
  command->footer(
      "Examples:\n"
      "  flyball account diff before.json after.json\n"
      "  flyball account diff bert.json albert.json --summary --top 10");
  command->callback([options] {
    const InterruptExit interrupt_exit;
    Footprint a = read_footprint_file(options->a);
    Footprint b = read_footprint_file(options->b);
    if (options->summary || options->similar) {
      const SelfSimilar similar = options->similar ? SelfSimilar(*options->similar) : SelfSimilar();
      a = summarised(a, similar);
      b = summarised(b, similar);
    }
    const FootprintComparison comparison = compare(a, b);
    const auto top = static_cast<std::size_t>(options->top.value_or(20));
    print_result(options->format == "json" ? comparison_json(comparison) : comparison_text(comparison, top));
  });
}

void add_quality(CLI::App& parent) {
  struct QualityOptions {
    std::vector<std::string> runs;
    std::optional<std::string> similar;
    std::optional<std::string> format;
  };
  CLI::App* command = parent.add_subcommand("quality", "how far a footprint can be trusted: ASSS, ASSW, stability");
  const auto options = std::make_shared<QualityOptions>();
  command->add_option("RUN", options->runs, "footprint JSON, or a folder with events.json[.gz] and power.csv[.gz]")
      ->required();
  add_value(*command, "--similar", options->similar, parse_path, "PATTERN", "what is self-similar, as for account");
  add_choice(*command, "--format", options->format, {"text", "json"}, "NAME", "text (default) or json");
  command->footer(
      "All are Pearson correlations of summarised footprints. ASSS, of folders only: with\n"
      "the power readings thinned out, which changes little where they are dense enough.\n"
      "ASSW: of the mean of the first runs with the mean of all. Stability: run by run.\n\n"
      "Examples:\n"
      "  flyball account quality run1/ run2/ run3/\n"
      "  flyball account quality run1.json run2.json");
  command->callback([options] {
    const InterruptExit interrupt_exit;
    const SelfSimilar similar = options->similar ? SelfSimilar(*options->similar) : SelfSimilar();
    const QualityFigures figures = measure_quality(options->runs, similar, AccountConsole().listener());
    print_result(options->format == "json" ? quality_json(figures) : quality_text(figures));
  });
}

}  // namespace

void add_account_command(CLI::App& program, const std::string& command_line) {
  CLI::App* command = program.add_subcommand("account", "joules per tensor, layer and module of a model");
  command->require_subcommand(0, 1);
  const auto options = std::make_shared<AccountOptions>();
  command->add_option("--power", options->power, "power trace, one for every event trace")->type_name("FILE");
  add_footprint_options(*command, *options);
  add_diff(*command);
  add_quality(*command);
  add_session_commands(*command, command_line);
  command->footer(
      "Examples:\n"
      "  flyball record -o power.csv -- python train.py      # which writes trace.json\n"
      "  flyball account --events trace.json.gz --power power.csv\n"
      "  flyball account --events trace.json --power power.csv --html account.html\n"
      "  flyball account --events t.json --power p.csv --method regress --sensor-window 100ms\n"
      "  flyball account start epoch; python train.py; flyball account stop epoch\n"
      "  flyball account read epoch --events trace.json      # recorded by the agent");
  command->callback([command, options, command_line] {
    if (!command->get_subcommands().empty()) return;
    const InterruptExit interrupt_exit;
    run_account(*options, command_line);
  });
}

}  // namespace flyball
