// flyball forecast: what a run will cost, from measured stages, from a plan, or from a simulated cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/forecast_estimate.h"
#include "cli/forecast_init.h"
#include "cli/option_values.h"
#include "cli/tariff_options.h"
#include "forecast/bill.h"
#include "forecast/forecast.h"
#include "forecast/plan_bill.h"
#include "forecast/recorded_run.h"
#include "plan/plan_file.h"
#include "plan/zeus_frequencies.h"
#include "report/forecast_report.h"

namespace flyball {
namespace {

constexpr std::size_t kShownPieces = 60;

struct PlanBillOptions {
  std::optional<std::string> file;
  std::optional<int> point;
  std::optional<double> slower_pct;
  std::optional<double> iterations;
  std::optional<int> pipelines;
  std::optional<int> tensor_parallel;
};

struct ForecastOptions {
  std::optional<std::string> run;
  std::optional<int> epochs;
  std::optional<double> confidence_pct;
  std::optional<std::string> calibration;
  PlanBillOptions plan;
  std::optional<std::string> cluster;
  std::optional<std::string> against;
  TariffOptions tariff;
  std::optional<Seconds> start;
  std::optional<std::string> format;
  std::optional<std::string> out;
};

double parse_iterations(std::string_view option, std::string_view text) {
  return static_cast<double>(parse_integer_within(option, text, 1, 1'000'000'000'000, "a whole number from 1 to 1e12"));
}

int parse_point(std::string_view option, std::string_view text) {
  return static_cast<int>(parse_integer_within(option, text, 0, 1'000'000'000, "the index of a point, from 0"));
}

// Nearer to 100 nothing is known of an interval's ends, and a double soon cannot tell the tail from none.
double parse_confidence(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1.0, 99.99, "per cent, from 1 to 99.99");
}

Tariff tariff_of(const ForecastOptions& options) {
  Tariff tariff = tariff_of(options.tariff);
  if (options.start && !tariff.carbon && !tariff.prices) {
    throw UsageError("--start says where in a file of --carbon or --price the run begins; give one of them");
  }
  tariff.start = options.start.value_or(Seconds(0));
  return tariff;
}

// Reads "TYPE=FILE", or FILE alone if there is only one type.
void calibrate_by_option(RecordedRun& all, const std::string& option) {
  const std::vector<NodeType>& types = all.run.node_types;
  const std::size_t equals = option.find('=');
  if (equals == std::string::npos) {
    if (types.size() == 1) return calibrate_type(all, 0, option);
    throw UsageError(fmt::format("--calibrate: there are {} node types; write TYPE=FILE", types.size()));
  }
  const std::string name = option.substr(0, equals);
  const auto found =
      std::find_if(types.begin(), types.end(), [&name](const NodeType& type) { return type.name == name; });
  if (found == types.end()) throw UsageError(fmt::format("--calibrate: no node type is called '{}'", name));
  calibrate_type(all, static_cast<std::size_t>(found - types.begin()), option.substr(equals + 1));
}

EnergySheet sheet_of_run(const ForecastOptions& options, std::vector<ForecastReport::NodePower>& pictures) {
  RecordedRun all = read_recorded_run(*options.run);
  if (options.epochs) all.run.epochs = *options.epochs;
  if (options.calibration) calibrate_by_option(all, *options.calibration);
  check_complete(all.run);
  const RunForecast forecast = forecast_run(all.run, options.confidence_pct.value_or(90.0) / 100.0);
  for (std::size_t t = 0; t < all.run.node_types.size(); ++t) {
    pictures.push_back({all.run.node_types[t].name, power_over_time(all.run, forecast, t, kShownPieces), {}});
  }
  for (const RecordedType& recorded : all.recordings) {
    ForecastReport::NodePower& picture = pictures[recorded.type];
    picture.measured = measured_power(recorded, picture.pieces);
  }
  return energy_sheet(all.run, forecast);
}

EnergySheet sheet_of_plan(const PlanBillOptions& options) {
  const PlanFile plan = read_plan_file(*options.file);
  const std::size_t points = plan.frontier.size();
  if (points == 0) throw InputError({*options.file}, "the plan has no points", "make it again with flyball plan");
  if (options.point && static_cast<std::size_t>(*options.point) >= points) {
    throw UsageError(fmt::format("--point {}: the plan's points are 0 to {}", *options.point, points - 1));
  }
  PlannedRun run;
  run.iterations = *options.iterations;
  run.gpus = std::int64_t{options.pipelines.value_or(1)} * options.tensor_parallel.value_or(1);
  run.point = options.point ? static_cast<std::size_t>(*options.point) : plan.header.selected.value_or(0);
  run.slower_pct = options.slower_pct;
  PlanBill bill = bill_of_plan(plan.dag, plan.frontier, plan.blocking, run);
  // Points count from the fastest, Zeus's files from the slowest.
  bill.sheet.name = fmt::format("{}, {} plan, point {} of 0 to {} (Zeus: {})", plan.header.source, plan.header.planner,
                                bill.point, points - 1, zeus_file_name(points - 1 - bill.point));
  return std::move(bill.sheet);
}

void check_plan_options(const PlanBillOptions& options) {
  const bool details =
      options.point || options.slower_pct || options.iterations || options.pipelines || options.tensor_parallel;
  if (!options.file) {
    if (details) throw UsageError("--iterations, --point, --slower, --pipelines and --tensor-parallel are for --plan");
    return;
  }
  if (!options.iterations) throw UsageError("--plan needs --iterations N, the length of the run");
  if (options.point && options.slower_pct) throw UsageError("--point and --slower both choose a point; give one");
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

void add_plan_options(const Command& command, PlanBillOptions& options) {
  add_value(command, "--plan", options.file, parse_path, "FILE",
            "plan that flyball plan --out wrote, in place of RUN.toml: compares its whole run with all-maximum clocks");
  add_value(command, "--iterations", options.iterations, parse_iterations, "N",
            "with --plan: number of iterations of the run");
  add_value(command, "--point", options.point, parse_point, "N",
            "with --plan: index of the plan's point that runs; 0 is the fastest (default: the chosen one)");
  add_value(command, "--slower", options.slower_pct, parse_percent, "PERCENT",
            "with --plan: run the slowest point that is at most this much slower than all-maximum clocks");
  add_value(command, "--pipelines", options.pipelines, parse_count, "N",
            "with --plan: number of data-parallel pipelines (default 1)");
  add_value(command, "--tensor-parallel", options.tensor_parallel, parse_count, "N",
            "with --plan: number of GPUs per stage (default 1)");
}

}  // namespace

void add_forecast_command(const Command& program, const std::string& command_line) {
  const Command command = program.add_subcommand("forecast", "what a training run will cost, before it runs");
  const auto options = std::make_shared<ForecastOptions>();
  command
      .add_option_function(
          "RUN", [options](const std::string& text) { options->run = text; },
          "file with nodes, powers and measured stage times of the run (docs/formats/run.md)")
      .type_name("RUN.toml");
  add_value(command, "--epochs", options->epochs, parse_count, "N", "number of epochs, in place of that in RUN.toml");
  add_value(command, "--calibrate", options->calibration, parse_path, "[TYPE=]FILE",
            "power trace that flyball record wrote, to take the component powers of a node type from");
  add_value(command, "--confidence", options->confidence_pct, parse_confidence, "PERCENT",
            "confidence of the interval, 1 to 99.99 (default 90)");
  add_plan_options(command, options->plan);
  add_value(command, "--cluster", options->cluster, parse_path, "FILE",
            "JSON result of a simulated cluster, in place of RUN.toml");
  add_value(command, "--against", options->against, parse_path, "FILE",
            "with --cluster: the same jobs under another policy, to see what is saved");
  add_tariff_options(command, options->tariff);
  add_value(command, "--start", options->start, parse_duration_or_zero, "TIME",
            "with a file of --carbon, or else of --price: time from its first row to the begin of the run (default 0)");
  add_format(command, options->format);
  add_value(command, "--out", options->out, parse_path, "DIR", "write forecast.html and forecast.json there");
  command.footer(
      "Examples:\n"
      "  flyball forecast examples/forecast/vgg16-mt128.toml\n"
      "  flyball forecast examples/forecast/vgg16-ft32.toml --epochs 100 \\\n"
      "    --carbon 380 --price 0.25 --out out/forecast\n"
      "  flyball plan examples/profiles/bert-1.3b-a100-4stage.csv \\\n"
      "    --microbatches 32 --out out/bert\n"
      "  flyball forecast --plan out/bert/plan.json --slower 5 \\\n"
      "    --iterations 250000 --carbon 380 --price 0.25");
  add_forecast_estimate(command, command_line);
  add_forecast_init(command);
  command.callback([options, command, command_line] {
    if (command.subcommand_is_given()) return;  // the subcommand has run
    run_forecast(*options, command_line);
  });
}

}  // namespace flyball
