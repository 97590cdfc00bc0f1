// flyball forecast: what a run will cost, from measured stages, from a plan, or from a simulated cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/forecast_estimate.h"
#include "cli/forecast_init.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/tariff_options.h"
#include "forecast/bill.h"
#include "forecast/budget.h"
#include "forecast/forecast.h"
#include "forecast/plan_bill.h"
#include "forecast/recorded_bill.h"
#include "forecast/recorded_run.h"
#include "forecast/run_change.h"
#include "forecast/samples.h"
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
  std::optional<double> power_cap;
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
  std::vector<std::string> against;
  bool steady = false;
  std::vector<std::string> nodes;
  std::optional<double> global_batch;
  std::optional<std::string> budget;
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

double parse_batch(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1e-9, 1e15, "a number of samples, above 0");
}

Tariff tariff_of(const ForecastOptions& options) {
  Tariff tariff = tariff_of(options.tariff);
  if (options.start && !tariff.carbon && !tariff.prices) {
    throw UsageError("--start says where in a file of --carbon or --price the run begins; give one of them");
  }
  tariff.start = options.start.value_or(Seconds(0));
  return tariff;
}

struct TypedValue {
  std::size_t type;
  std::string value;
};

// Reads "TYPE=VALUE", or VALUE alone if there is only one type.
TypedValue typed_value(std::string_view option, const std::string& text, const std::vector<NodeType>& types) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    if (types.size() == 1) return {0, text};
    throw UsageError(fmt::format("{}: there are {} node types; write TYPE={}", option, types.size(), text));
  }
  const std::string name = text.substr(0, equals);
  const auto found =
      std::find_if(types.begin(), types.end(), [&name](const NodeType& type) { return type.name == name; });
  if (found == types.end()) throw UsageError(fmt::format("{}: no node type is called '{}'", option, name));
  return {static_cast<std::size_t>(found - types.begin()), text.substr(equals + 1)};
}

// Reads the recordings of --against and compares. A recording that the forecast was made from is no independent check.
RecordedBill against_recordings(const ForecastOptions& options, const RecordedRun& all, double confidence) {
  std::vector<RecordedNode> nodes;
  std::vector<std::string> notes;
  for (const std::string& option : options.against) {
    const TypedValue file = typed_value("--against", option, all.run.node_types);
    nodes.push_back({file.type, read_recording(file.value)});
    for (const RecordedType& used : all.recordings) {
      std::error_code ignored;
      if (!std::filesystem::equivalent(used.recording.source, file.value, ignored)) continue;
      notes.push_back(fmt::format("the forecast itself was made from {}", file.value));
    }
  }
  RecordedBill bill = recorded_bill(all.run, nodes, options.plan.iterations, !options.steady, confidence);
  bill.notes.insert(bill.notes.begin(), notes.begin(), notes.end());
  return bill;
}

PlanBill read_plan_bill(const PlanBillOptions& options, double iterations) {
  const PlanFile plan = read_plan_file(*options.file);
  const std::size_t points = plan.frontier.size();
  if (points == 0) throw InputError({*options.file}, "the plan has no points", "make it again with flyball plan");
  if (options.point && static_cast<std::size_t>(*options.point) >= points) {
    throw UsageError(fmt::format("--point {}: the plan's points are 0 to {}", *options.point, points - 1));
  }
  PlannedRun run;
  run.iterations = iterations;
  run.gpus = std::int64_t{options.pipelines.value_or(1)} * options.tensor_parallel.value_or(1);
  run.point = options.point ? static_cast<std::size_t>(*options.point) : plan.header.selected.value_or(0);
  run.slower_pct = options.slower_pct;
  if (options.power_cap) run.power_cap = Watts(*options.power_cap);
  PlanBill bill = bill_of_plan(plan.dag, plan.frontier, plan.blocking, run);
  // Points count from the fastest, Zeus's files from the slowest.
  bill.sheet.name = fmt::format("{}, {} plan, point {} of 0 to {} (Zeus: {})", plan.header.source, plan.header.planner,
                                bill.point, points - 1, zeus_file_name(points - 1 - bill.point));
  return bill;
}

Budget parse_budget(const std::string& text) {
  constexpr std::string_view kUnit = "kWh";
  Budget budget;
  if (text.size() > kUnit.size() && text.ends_with(kUnit)) {
    budget.energy = Joules(3.6e6 * parse_positive("--budget", trim(text.substr(0, text.size() - kUnit.size()))));
  } else {
    budget.money = parse_positive("--budget", text);
  }
  return budget;
}

// With the ends of the interval, which is as wide in per cent as that of `forecast`: at its upper end every iteration
// costs more.
ForecastReport::Bought bought_by(const std::string& text, const RunDescription& run, const RunForecast& forecast,
                                 const Tariff& tariff) {
  const Budget budget = parse_budget(text);
  const auto at_end = [&](Joules end) {
    return iterations_within(budget, tariff, [&](double iterations) {
      const RunForecast part = forecast_part(run, {iterations, true}, forecast.interval.confidence);
      return RunCost{end / forecast.energy * part.energy, part.duration};
    });
  };
  ForecastReport::Bought bought;
  bought.budget = text;
  bought.iterations = at_end(forecast.energy);
  bought.least = at_end(forecast.interval.high);
  bought.most = at_end(forecast.interval.low);
  bought.epochs = bought.iterations / run.iterations_per_epoch();
  return bought;
}

// Sets the run's clocks to those of the plan's point, and returns a sentence on it.
std::vector<std::string> apply_plan(const PlanBillOptions& options, RunDescription& run) {
  const PlanBill bill = read_plan_bill(options, 1.0);
  const ClockFactors factors = clock_factors(bill);
  std::vector<std::string> notes = {
      fmt::format("clocks: {}; forward and backward take {:+.2f} % of time, their accelerators {:+.2f} % of energy",
                  bill.sheet.name, 100.0 * (factors.time - 1.0), 100.0 * (factors.energy - 1.0))};
  const Seconds planned = bill.sheet.baseline->duration;
  const NodeType& type = run.node_types.front();
  const Seconds measured =
      mean_of(type.stage(TrainingStage::kForward).times) + mean_of(type.stage(TrainingStage::kBackward).times);
  const bool an_iteration = type.stage(TrainingStage::kForward).occurrence == Occurrence::kIteration;
  if (an_iteration && (measured > 1.25 * planned || measured < 0.8 * planned)) {
    notes.push_back(fmt::format(
        "the plan's iteration takes {:.4g} s at all-maximum clocks, forward and backward of '{}' {:.4g} s: is "
        "it a plan of this job?",
        planned.value(), type.name, measured.value()));
  }
  run = at_clocks(std::move(run), factors);
  return notes;
}

RunChange question_of(const ForecastOptions& options, const RunDescription& run) {
  RunChange question;
  question.global_batch = options.global_batch;
  if (!options.nodes.empty()) question.counts.resize(run.node_types.size());
  for (const std::string& option : options.nodes) {
    const TypedValue nodes = typed_value("--nodes", option, run.node_types);
    question.counts[nodes.type] = static_cast<int>(
        parse_integer_within("--nodes", nodes.value, 1, 10'000'000, "a number of nodes from 1 to 10 million"));
  }
  return question;
}

EnergySheet sheet_of_run(const ForecastOptions& options, const Tariff& tariff, ForecastReport& report) {
  RecordedRun all = read_recorded_run(*options.run);
  if (options.epochs) all.run.epochs = *options.epochs;
  if (options.calibration) {
    const TypedValue file = typed_value("--calibrate", *options.calibration, all.run.node_types);
    calibrate_type(all, file.type, file.value);
  }
  check_complete(all.run);
  const double confidence = options.confidence_pct.value_or(90.0) / 100.0;
  const RunForecast described = forecast_run(all.run, confidence);
  std::vector<std::string> notes;
  if (options.plan.file) notes = apply_plan(options.plan, all.run);
  const RunChange question = question_of(options, all.run);
  RunForecast forecast = forecast_run(all.run, confidence);
  if (!options.against.empty()) report.recorded = against_recordings(options, all, confidence);
  if (question.any()) {
    ChangedRun other = change_run(all.run, question, confidence);
    notes.insert(notes.end(), other.notes.begin(), other.notes.end());
    all.run = std::move(other.run);
    forecast = std::move(other.forecast);
  }
  EnergySheet sheet = energy_sheet(all.run, forecast);
  sheet.notes.insert(sheet.notes.begin(), notes.begin(), notes.end());
  if (question.any() || options.plan.file) {
    sheet.baseline = EnergySheet::Baseline{question.any() ? "the run as described" : "all-maximum clocks",
                                           described.energy, described.duration};
  }
  if (options.budget) report.bought = bought_by(*options.budget, all.run, forecast, tariff);
  for (std::size_t t = 0; t < all.run.node_types.size(); ++t) {
    report.power.push_back({all.run.node_types[t].name, power_over_time(all.run, forecast, t, kShownPieces), {}});
  }
  for (const RecordedType& recorded : all.recordings) {
    ForecastReport::NodePower& picture = report.power[recorded.type];
    picture.measured = measured_power(recorded, picture.pieces);
  }
  return sheet;
}

EnergySheet sheet_of_plan(const ForecastOptions& options, const Tariff& tariff, ForecastReport& report) {
  const double iterations = *options.plan.iterations;
  PlanBill bill = read_plan_bill(options.plan, iterations);
  if (options.budget) {
    const RunCost each{bill.sheet.energy / iterations, bill.sheet.duration / iterations};
    const double bought = iterations_within(parse_budget(*options.budget), tariff, [&each](double count) {
      return RunCost{count * each.energy, count * each.duration};
    });
    report.bought = ForecastReport::Bought{*options.budget, bought, std::nullopt, std::nullopt, std::nullopt};
  }
  return std::move(bill.sheet);
}

void check_against(const ForecastOptions& options) {
  if (options.plan.file && !options.run && !options.against.empty()) {
    throw UsageError("--against is for a RUN.toml, with a recording, and for --cluster, with another result");
  }
  if (options.cluster && options.against.size() > 1) throw UsageError("--cluster has one --against");
  if (!options.run || options.against.empty()) {
    if (options.steady) throw UsageError("--steady is for a RUN.toml with --against");
    if (options.run && options.plan.iterations) {
      throw UsageError("--iterations with a RUN.toml is for --against; the length of the run is --epochs");
    }
  }
}

void check_plan_options(const PlanBillOptions& options, bool run) {
  const bool details =
      options.point || options.slower_pct || options.power_cap || options.pipelines || options.tensor_parallel;
  if (!options.file) {
    if (details || (options.iterations && !run)) {
      throw UsageError(
          "--iterations, --point, --slower, --power-cap, --pipelines and --tensor-parallel are for --plan");
    }
    return;
  }
  if (run && (options.pipelines || options.tensor_parallel)) {
    throw UsageError("--pipelines and --tensor-parallel are for --plan alone: RUN.toml says how many nodes there are");
  }
  if (!run && !options.iterations) throw UsageError("--plan needs --iterations N, the length of the run");
  if ((options.point ? 1 : 0) + (options.slower_pct ? 1 : 0) + (options.power_cap ? 1 : 0) > 1) {
    throw UsageError("--point, --slower and --power-cap each choose a point; give one");
  }
}

void run_forecast(const ForecastOptions& options, const std::string& command) {
  const bool source = options.run || options.plan.file;
  if (source == options.cluster.has_value()) {
    throw UsageError("forecast: give a RUN.toml, --plan PLAN.json, both, or --cluster RESULT.json");
  }
  if (options.budget && options.cluster) throw UsageError("--budget is for a RUN.toml or --plan");
  if (!options.run && (options.epochs || options.calibration || options.confidence_pct)) {
    throw UsageError("--epochs, --calibrate and --confidence are for a RUN.toml");
  }
  check_against(options);
  if (!options.nodes.empty() || options.global_batch) {
    if (!options.run) throw UsageError("--nodes and --global-batch are for a RUN.toml");
    if (!options.against.empty())
      throw UsageError("--against compares the run as it is, without --nodes or --global-batch");
  }
  check_plan_options(options.plan, options.run.has_value());
  const Tariff tariff = tariff_of(options);
  ForecastReport report;
  const InterruptExit exit;
  std::optional<WorkLine> line("forecasting");
  const std::optional<std::string> other =
      options.against.empty() ? std::nullopt : std::optional(options.against.front());
  const EnergySheet sheet = options.run         ? sheet_of_run(options, tariff, report)
                            : options.plan.file ? sheet_of_plan(options, tariff, report)
                                                : sheet_of_cluster(*options.cluster, other);
  line.reset();
  report.sheet = &sheet;
  report.tariff = &tariff;
  report.command = command;
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
            "plan that flyball plan --out wrote: compares its whole run with all-maximum clocks; with a RUN.toml, the "
            "clocks of that run");
  add_value(command, "--iterations", options.iterations, parse_iterations, "N",
            "with --plan: number of iterations of the run; with --against RECORDING: those that the recording has");
  add_value(command, "--point", options.point, parse_point, "N",
            "with --plan: index of the plan's point that runs; 0 is the fastest (default: the chosen one)");
  add_value(command, "--slower", options.slower_pct, parse_percent, "PERCENT",
            "with --plan: run the slowest point that is at most this much slower than all-maximum clocks");
  add_value(command, "--power-cap", options.power_cap, parse_positive, "WATTS",
            "with --plan: run the fastest point at which a GPU draws no more than this on average");
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
  command
      .add_option("--nodes", options->nodes,
                  "what if the run had so many nodes (of a type): from RUN.toml's measurements, with a wider interval; "
                  "once for each type")
      .type_name("[TYPE=]N")
      .one_value_each();
  add_value(command, "--global-batch", options->global_batch, parse_batch, "N",
            "what if all nodes together took so many samples in an iteration");
  add_value(command, "--calibrate", options->calibration, parse_path, "[TYPE=]FILE",
            "power trace that flyball record wrote, to take the component powers of a node type from");
  add_value(command, "--confidence", options->confidence_pct, parse_confidence, "PERCENT",
            "confidence of the interval, 1 to 99.99 (default 90)");
  add_plan_options(command, options->plan);
  add_value(command, "--cluster", options->cluster, parse_path, "FILE",
            "JSON result of a simulated cluster, in place of RUN.toml");
  command
      .add_option("--against", options->against,
                  "with a RUN.toml: power trace that flyball record wrote of one of its nodes, to see how far the "
                  "forecast is off; once for each recorded node. With --cluster: result of the same jobs under "
                  "another policy, to see what is saved")
      .type_name("[TYPE=]FILE")
      .one_value_each();
  command.add_flag("--steady", options->steady,
                   "with --against RECORDING: the recording has iterations alone, not what runs once");
  add_value(command, "--budget", options->budget, parse_path, "MONEY|kWh",
            "says how many iterations so much money (with --price) or energy (40kWh) buys");
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
      "  flyball forecast examples/forecast/two-generations.toml \\\n"
      "    --nodes new=96 --nodes old=32\n"
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
