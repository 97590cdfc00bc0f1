// flyball profile: look at profiles, make synthetic ones.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "draw/text_table.h"
#include "pipeline/pipeline_spec.h"
#include "profile/cost_curve.h"
#include "profile/profile.h"
#include "profile/synth.h"

namespace flyball {
namespace {

struct ShowOptions {
  std::string profile;
  std::optional<std::vector<Watts>> blocking_power;
  std::optional<std::string> format;
};

// One operation between its fastest option and its least net energy, which is as far as any plan slows it down.
struct OperationFigures {
  const OperationProfile* operation = nullptr;
  ClockOption fastest;
  ClockOption thriftiest;
  std::size_t pareto = 0;

  // A blocked GPU draws on while the faster clock has already finished, so both are taken over the slower one's time.
  [[nodiscard]] double saving_pct(Watts blocking) const {
    const Joules fast = fastest.energy + blocking * (thriftiest.time - fastest.time);
    return 100.0 * (1.0 - thriftiest.energy / fast);
  }
  [[nodiscard]] double stretch_pct() const { return 100.0 * (thriftiest.time / fastest.time - 1.0); }
};

OperationFigures figures_of(const OperationProfile& operation, Watts blocking) {
  const std::vector<ClockOption> pareto = pareto_options(operation.options, blocking);
  return {&operation, pareto.front(), pareto.back(), pareto.size()};
}

Watts blocking_of(const ShowOptions& options, const Profile& profile, int stage) {
  PipelineSpec spec;
  if (options.blocking_power) spec.blocking_power = *options.blocking_power;
  return spec.blocking_powers(profile.stages, profile)[static_cast<std::size_t>(stage)];
}

// The longest stage's forward time over the shortest's, both at their fastest (Perseus table 1); 0 if a stage has no
// forward.
double forward_imbalance(const Profile& profile) {
  double longest = 0.0;
  double shortest = 0.0;
  for (int stage = 0; stage < profile.stages; ++stage) {
    const OperationProfile* forward = profile.find(stage, "forward");
    if (forward == nullptr) return 0.0;
    const double time = forward->options.front().time.value();
    longest = stage == 0 ? time : std::max(longest, time);
    shortest = stage == 0 ? time : std::min(shortest, time);
  }
  return longest / shortest;
}

std::string clock_range(const OperationProfile& operation) {
  if (operation.constant_time()) return "constant";
  if (operation.options.front().frequency == Megahertz(0)) return "none";
  return fmt::format("{:.0f}-{:.0f}", operation.options.back().frequency.value(),
                     operation.options.front().frequency.value());
}

std::string show_text(const Profile& profile, const ShowOptions& options) {
  TextTable table({"stage", "<instruction", "clocks (MHz)", "rows", "time (s)", "energy (J)", "least at (MHz)",
                   "slower %", "saving %"});
  for (const OperationProfile& operation : profile.operations) {
    const Watts blocking = blocking_of(options, profile, operation.stage);
    const OperationFigures figures = figures_of(operation, blocking);
    const bool choice = !operation.constant_time();
    table.add_row({fmt::to_string(operation.stage), operation.instruction, clock_range(operation),
                   fmt::to_string(operation.options.size()), format_fixed(figures.fastest.time.value(), 5),
                   format_fixed(figures.fastest.energy.value(), 2),
                   choice && figures.thriftiest.frequency > Megahertz(0)
                       ? format_fixed(figures.thriftiest.frequency.value(), 0)
                       : "-",
                   choice ? format_fixed(figures.stretch_pct(), 1) : "-",
                   choice ? format_fixed(figures.saving_pct(blocking), 1) : "-"});
  }
  std::string text = fmt::format("{}: {}\n\n{}", profile.source, counted(profile.stages, "stage"), table.str());
  if (!profile.label_columns.empty()) {
    text += fmt::format("\nlabels of the options: {}\n", fmt::join(profile.label_columns, ", "));
  }
  const double imbalance = forward_imbalance(profile);
  if (imbalance > 0.0) text += fmt::format("\nforward imbalance (longest stage over shortest): {:.3f}\n", imbalance);
  return text;
}

std::string show_json(const Profile& profile, const ShowOptions& options) {
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  for (const OperationProfile& operation : profile.operations) {
    const Watts blocking = blocking_of(options, profile, operation.stage);
    const OperationFigures figures = figures_of(operation, blocking);
    operations.push_back({{"stage", operation.stage},
                          {"instruction", operation.instruction},
                          {"rows", operation.options.size()},
                          {"pareto_rows", figures.pareto},
                          {"fastest_frequency", figures.fastest.frequency.value()},
                          {"fastest_time", figures.fastest.time.value()},
                          {"fastest_energy", figures.fastest.energy.value()},
                          {"least_energy_frequency", figures.thriftiest.frequency.value()},
                          {"slowdown_pct", figures.stretch_pct()},
                          {"saving_pct", figures.saving_pct(blocking)}});
  }
  const double imbalance = forward_imbalance(profile);
  nlohmann::ordered_json json = {{"stages", profile.stages}};
  if (!profile.label_columns.empty()) json["labels"] = profile.label_columns;
  json["forward_imbalance"] = imbalance > 0.0 ? nlohmann::ordered_json(imbalance) : nlohmann::ordered_json(nullptr);
  json["operations"] = std::move(operations);
  return json.dump(2) + "\n";
}

void add_show(const Command& parent) {
  const Command command = parent.add_subcommand("show", "what a profile holds and how much each operation can save");
  const auto options = std::make_shared<ShowOptions>();
  command.add_option("PROFILE", options->profile, "profile CSV; - reads standard input").type_name("FILE").required();
  add_value(command, "--blocking-power", options->blocking_power, parse_powers, "W[,W...]",
            "blocking power, which a GPU draws while it waits for others, in watts: one number, or one per stage "
            "(default 75)");
  add_format(command, options->format);
  command.footer(
      "'least at' is the clock of least energy, blocking counted; 'slower' and 'saving'\n"
      "compare it with the fastest.\n\n"
      "Examples:\n"
      "  flyball profile show examples/profiles/gpt3-1.3b-a100-4stage.csv");
  command.callback([options] {
    const InterruptGuard guard;
    const Profile profile = load_profile(options->profile, guard);
    print_result(options->format == "json" ? show_json(profile, *options) : show_text(profile, *options));
  });
}

struct SynthOptions {
  SynthRequest request;
  std::optional<int> stages;
  std::optional<double> noise_pct;
  std::optional<int> seed;
  std::optional<double> power_limit;
  std::optional<std::string> out;
  std::optional<std::string> format;
  bool layers = false;
  bool list = false;
};

std::string listing(bool as_json) {
  if (as_json) {
    const nlohmann::ordered_json json = {{"gpus", synth_gpus()}, {"workloads", synth_workloads()}};
    return json.dump(2) + "\n";
  }
  return fmt::format("GPUs:\n  {}\nworkloads:\n  {}\n", fmt::join(synth_gpus(), "\n  "),
                     fmt::join(synth_workloads(), "\n  "));
}

void run_synth(SynthOptions& options) {
  if (options.list) return print_result(listing(options.format == "json"));
  if (options.format) throw UsageError("--format is for --list; profiles and layer times are CSV");
  if (options.layers && (options.stages || options.noise_pct || options.seed || options.power_limit)) {
    throw UsageError(
        "--layers prints the layers before they are split and measured; drop --stages, --noise, --seed and "
        "--power-limit");
  }
  SynthRequest& request = options.request;
  if (options.stages) request.stages = *options.stages;
  if (options.noise_pct) request.noise_relative = *options.noise_pct / 100.0;
  if (options.seed) request.seed = static_cast<std::uint64_t>(*options.seed);
  if (options.power_limit) request.power_limit = Watts(*options.power_limit);
  std::string text;
  if (options.layers) {
    text = synthesize_layer_times(request.gpu, request.workload);
  } else {
    const SynthProfile made = synthesize_profile(request);
    text = write_profile(made.profile, made.comment);
  }
  if (!options.out) return print_data(text);
  write_text_file(*options.out, text);
  print_result(fmt::format("wrote {}\n", *options.out));
}

void add_synth(const Command& parent) {
  const Command command = parent.add_subcommand("synth", "make a calibrated synthetic profile (not a measurement)");
  const auto options = std::make_shared<SynthOptions>();
  command.add_option("--gpu", options->request.gpu, "GPU model, see --list (default a100)")
      .type_name("NAME")
      .suggests(synth_gpus());
  command.add_option("--workload", options->request.workload, "model that is trained, see --list (default gpt3-1.3b)")
      .type_name("NAME")
      .suggests(synth_workloads());
  add_value(command, "--stages", options->stages, parse_count, "N", "number of pipeline stages (default 4)");
  add_value(command, "--noise", options->noise_pct, parse_percent, "PERCENT",
            "standard deviation of the measurement noise (default 0.04)");
  add_value(command, "--seed", options->seed, parse_count, "N", "seed of that noise (default 1)");
  add_value(command, "--power-limit", options->power_limit, parse_positive, "W",
            "power limit of the board: above the clock at which an operation draws as much, a higher one changes "
            "nothing (default: the GPU's own, which holds compute-bound work only)");
  command.add_flag("--layers", options->layers, "print the layers' forward times instead, for flyball partition");
  command.add_flag("--list", options->list, "list the GPUs and workloads");
  add_choice(command, "--format", options->format, {"text", "json"}, "NAME",
             "format of that list: text (default) or json");
  add_value(command, "--out", options->out, parse_path, "FILE", "write to this file");
  command.footer(
      "Examples:\n"
      "  flyball profile synth --list\n"
      "  flyball profile synth --gpu a100 --workload gpt3-1.3b --out out/gpt3.csv\n"
      "  flyball profile synth --gpu a40 --workload bloom-3b --power-limit 300\n"
      "  flyball profile synth --gpu a40 --workload bloom-3b --layers");
  command.callback([options] { run_synth(*options); });
}

}  // namespace

void add_profile_command(const Command& program) {
  const Command command = program.add_subcommand("profile", "show a profile, or make one: fitted or synthetic");
  add_show(command);
  add_synth(command);
  add_profile_fit_command(command);
  add_profile_compose_command(command);
}

}  // namespace flyball
