// flyball forecast: what a run will cost, from measured stages, from a plan, or from a simulated cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/forecast_init.h"
#include "cli/forecast_sources.h"
#include "cli/option_values.h"
#include "forecast/bill.h"
#include "forecast/forecast.h"
#include "forecast/recording.h"
#include "report/forecast_report.h"

namespace flyball {
namespace {

constexpr std::size_t kShownPieces = 60;

struct ForecastOptions {
  std::optional<std::string> run;
  std::optional<int> epochs;
  std::optional<double> confidence_pct;
  std::optional<std::string> calibration;
  PlanBillOptions plan;
  std::optional<std::string> cluster;
  std::optional<std::string> against;
  std::optional<std::string> carbon;
  std::optional<Seconds> start;
  std::optional<double> price;
  std::optional<std::string> format;
  std::optional<std::string> out;
};

double parse_price(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value < 0.0) throw UsageError(fmt::format("{} takes a price per kWh from 0, not '{}'", option, text));
  return *value;
}

// Beyond that nothing is known of an interval's ends, and a double of the tail's.
double parse_confidence(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value < 1.0 || *value > 99.99) {
    throw UsageError(fmt::format("{} takes per cent, from 1 to 99.99, not '{}'", option, text));
  }
  return *value;
}

Tariff tariff_of(const ForecastOptions& options) {
  Tariff tariff;
  tariff.price_per_kwh = options.price;
  if (!options.carbon) {
    if (options.start) throw UsageError("--start says where in a --carbon FILE the run begins; give both");
    return tariff;
  }
  if (const auto constant = parse_number(*options.carbon)) {
    // Through the reader, so that one place knows what an intensity may be.
    tariff.carbon = read_carbon("--carbon", fmt::format("timestamp,g_per_kwh\n0,{}\n", *constant));
  } else {
    tariff.carbon = read_carbon(*options.carbon, read_text_file(*options.carbon));
  }
  tariff.start = options.start.value_or(Seconds(0));
  return tariff;
}

struct Recorded {
  std::size_t type = 0;
  Recording recording;
  std::vector<StageSpan> spans;
};

// "TYPE=FILE", or the file for the only type.
void calibrate_type(RunDescription& run, const std::string& option, std::vector<Recorded>& recordings) {
  const std::size_t equals = option.find('=');
  std::size_t type = 0;
  std::string file = option;
  if (equals != std::string::npos) {
    file = option.substr(equals + 1);
    const std::string name = option.substr(0, equals);
    while (type < run.node_types.size() && run.node_types[type].name != name) ++type;
    if (type == run.node_types.size()) throw UsageError(fmt::format("--calibrate: no node type is called '{}'", name));
  } else if (run.node_types.size() != 1) {
    throw UsageError(fmt::format("--calibrate: there are {} node types; write TYPE=FILE", run.node_types.size()));
  }
  Recording recording = read_recording(file);
  const PerComponent<std::optional<ComponentPower>> powers = calibrate(recording);
  NodeType& own = run.node_types[type];
  for (std::size_t c = 0; c < kComponents; ++c) {
    if (powers[c]) own.components[c] = powers[c];
  }
  set_usual_activity(own, own.has(Component::kAccelerator));
  const bool drawn = std::any_of(recordings.begin(), recordings.end(),
                                 [type](const Recorded& recorded) { return recorded.type == type; });
  if (!drawn) recordings.push_back({type, std::move(recording), {}});
}

std::vector<Recorded> attach_recordings(RunDescription& run, const std::filesystem::path& folder) {
  std::vector<Recorded> all;
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    NodeType& type = run.node_types[t];
    if (type.recording_file.empty()) continue;
    const std::string file = (folder / type.recording_file).lexically_normal().string();
    Recorded recorded{t, read_recording(file), {}};
    if (!type.spans_file.empty()) {
      const std::string spans = (folder / type.spans_file).lexically_normal().string();
      recorded.spans = read_spans(spans, read_text_file(spans));
      attach_recording(type, recorded.recording, recorded.spans);
      const auto powers = calibrate(recorded.recording, recorded.spans, type);
      for (std::size_t c = 0; c < kComponents; ++c) {
        if (powers[c] && !type.components[c]) type.components[c] = powers[c];
      }
    }
    all.push_back(std::move(recorded));
  }
  return all;
}

// The recording moved so that its first measured iteration lies on the first that is forecast.
std::vector<std::pair<Seconds, Watts>> shifted_steps(const Recorded& recorded, const std::vector<PowerPiece>& pieces) {
  constexpr std::size_t kSteps = 1200;
  double first_span = recorded.recording.first_timestamp;
  Seconds first_piece(0);
  bool found = false;
  for (const StageSpan& span : recorded.spans) {
    if (usual_occurrence(span.stage) != Occurrence::kIteration) continue;
    if (!found || span.begin < first_span) first_span = span.begin;
    found = true;
  }
  for (const PowerPiece& piece : pieces) {
    if (!found || usual_occurrence(piece.stage) == Occurrence::kIteration) break;
    first_piece = piece.end;
  }
  const Seconds shift = first_piece - Seconds(first_span - recorded.recording.first_timestamp);
  std::vector<std::pair<Seconds, Watts>> steps;
  for (auto [time, power] : power_steps(recorded.recording, kSteps)) {
    if (time + shift >= Seconds(0)) steps.emplace_back(time + shift, power);
  }
  if (!steps.empty()) steps.emplace_back(recorded.recording.common_span().second + shift, Watts(0));
  return steps;
}

EnergySheet sheet_of_run(const ForecastOptions& options, std::vector<ForecastReport::NodePower>& pictures) {
  RunDescription run = read_run(*options.run, read_text_file(*options.run));
  if (options.epochs) run.epochs = *options.epochs;
  std::vector<Recorded> recordings = attach_recordings(run, std::filesystem::path(*options.run).parent_path());
  if (options.calibration) calibrate_type(run, *options.calibration, recordings);
  check_complete(run);
  const RunForecast forecast = forecast_run(run, options.confidence_pct.value_or(90.0) / 100.0);
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    ForecastReport::NodePower picture{run.node_types[t].name, power_over_time(run, forecast, t, kShownPieces), {}};
    for (const Recorded& recorded : recordings) {
      if (recorded.type == t) picture.measured = shifted_steps(recorded, picture.pieces);
    }
    pictures.push_back(std::move(picture));
  }
  return energy_sheet(run, forecast);
}

void run_forecast(const ForecastOptions& options, const std::string& command) {
  const int sources = (options.run ? 1 : 0) + (options.plan.file ? 1 : 0) + (options.cluster ? 1 : 0);
  if (sources != 1)
    throw UsageError("forecast: give a RUN.toml, --plan PLAN.json or --cluster RESULT.json; one of them");
  if (!options.run && (options.epochs || options.calibration || options.confidence_pct)) {
    throw UsageError("--epochs, --calibrate and --confidence are for a RUN.toml");
  }
  if (options.against && !options.cluster) throw UsageError("--against is for --cluster");
  check_plan_options(options.plan);
  const Tariff tariff = tariff_of(options);
  std::vector<ForecastReport::NodePower> pictures;
  const EnergySheet sheet = options.run         ? sheet_of_run(options, pictures)
                            : options.plan.file ? sheet_of_plan(options.plan)
                                                : sheet_of_cluster(*options.cluster, options.against);
  const ForecastReport report{&sheet, &tariff, std::move(pictures), command};
  std::string text = options.format == "json" ? forecast_json(report) : forecast_text(report);
  if (options.out) {
    const std::filesystem::path folder(*options.out);
    write_text_file(folder / "forecast.json", forecast_json(report));
    write_text_file(folder / "forecast.html", forecast_html(report));
    if (options.format != "json") text += fmt::format("\nwrote {}\n", (folder / "forecast.html").string());
  }
  print_result(text);
}

}  // namespace

void add_forecast_command(CLI::App& program, const std::string& command_line) {
  CLI::App* command = program.add_subcommand("forecast", "what a training run will cost, before it runs");
  command->require_subcommand(0, 1);
  const auto options = std::make_shared<ForecastOptions>();
  command
      ->add_option_function<std::string>(
          "RUN", [options](const std::string& text) { options->run = text; },
          "nodes, powers and measured stage times (docs/formats/run.md)")
      ->type_name("RUN.toml");
  add_value(*command, "--epochs", options->epochs, parse_count, "N", "in place of RUN.toml's");
  add_value(*command, "--calibrate", options->calibration, parse_path, "[TYPE=]FILE",
            "component powers of a node type from what flyball record wrote");
  add_value(*command, "--confidence", options->confidence_pct, parse_confidence, "PERCENT",
            "of the interval, 1 to 99.99 (default 90)");
  add_plan_options(*command, options->plan);
  add_value(*command, "--cluster", options->cluster, parse_path, "FILE",
            "the JSON of a simulated cluster, in place of RUN.toml");
  add_value(*command, "--against", options->against, parse_path, "FILE",
            "with --cluster: the same jobs under another policy, to see what is saved");
  add_value(*command, "--carbon", options->carbon, parse_path, "FILE|GRAMS",
            "g of CO2 per kWh: a number, or a CSV over time");
  add_value(*command, "--start", options->start, parse_duration_or_zero, "TIME",
            "with --carbon FILE: the run begins so long after its first row (default 0)");
  add_value(*command, "--price", options->price, parse_price, "PRICE", "of a kWh, in any currency");
  add_choice(*command, "--format", options->format, {"text", "json"}, "NAME", "text (default) or json");
  add_value(*command, "--out", options->out, parse_path, "DIR", "write forecast.html and forecast.json there");
  command->footer(
      "Examples:\n"
      "  flyball forecast examples/forecast/vgg16-mt128.toml\n"
      "  flyball forecast examples/forecast/vgg16-ft32.toml --epochs 100 \\\n"
      "    --carbon 380 --price 0.25 --out out/forecast\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv \\\n"
      "    --microbatches 32 --out out/bert\n"
      "  flyball forecast --plan out/bert/plan.json --slower 5 \\\n"
      "    --iterations 250000 --carbon 380 --price 0.25");
  add_forecast_init(*command);
  command->callback([options, command, command_line] {
    if (!command->get_subcommands().empty()) return;  // it has run
    run_forecast(*options, command_line);
  });
}

}  // namespace flyball
