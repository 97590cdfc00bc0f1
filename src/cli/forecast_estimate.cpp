// The table of GPUs is the list of what --gpu takes.
#include "cli/forecast_estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/tariff_options.h"
#include "forecast/estimate.h"
#include "forecast/estimate_bill.h"
#include "forecast/hardware_table.h"
#include "report/estimate_report.h"

namespace flyball {
namespace {

constexpr std::int64_t kDefaultSequence = 4096;
constexpr std::int64_t kDefaultBatch = 1024;
constexpr double kLeastAmount = 1e4;  // of parameters and tokens: less is a unit that was left out
constexpr double kMostAmount = 1e18;

struct EstimateOptions {
  std::optional<std::string> gpu;
  std::optional<long> gpus;
  std::optional<double> parameters, active_parameters, tokens;
  bool recompute = false;
  std::optional<double> utilization, power_w, node_pct, pue, confidence_pct;
  TariffOptions tariff;
  std::optional<Seconds> start;
  bool best_start = false;
  std::optional<double> gpu_hour_price, budget;
  bool embodied = false;
  std::optional<std::string> run, format, out;
};

// Reads "70e9", "70B" or "2T".
double parse_amount(std::string_view option, std::string_view text) {
  constexpr std::string_view kWanted = "a number from 10K to 1e18, also with K, M, B or T behind it: 70e9, 70B, 2T";
  std::string_view digits = text;
  double unit = 1.0;
  if (!digits.empty()) {
    switch (std::toupper(static_cast<unsigned char>(digits.back()))) {
      case 'K': unit = 1e3; break;
      case 'M': unit = 1e6; break;
      case 'B':
      case 'G': unit = 1e9; break;
      case 'T': unit = 1e12; break;
      default: break;
    }
  }
  if (unit > 1.0) digits.remove_suffix(1);
  const auto value = parse_number(digits);
  if (value && *value * unit <= kMostAmount && *value * unit >= kLeastAmount) return *value * unit;
  throw UsageError(fmt::format("{} '{}': wanted {}", option, text, kWanted));
}

double parse_utilization(std::string_view option, std::string_view text) {
  const auto value = parse_number(text);
  if (value && *value > 0.0 && *value <= 1.0) return *value;
  const std::string mend =
      value && *value > 1.0 && *value <= 100.0 ? fmt::format("; for {} % write {:g}", trim(text), *value / 100.0) : "";
  throw UsageError(fmt::format("{} '{}': the share of the GPU's peak that training uses is above 0 and at most 1{}",
                               option, text, mend));
}

double parse_gpu_power(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1.0, 1e4, "the watts of one GPU at load, from 1 to 10000");
}

double parse_node_percent(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 500.0, "per cent of the GPUs' power, from 0 to 500");
}

double parse_pue(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1.0, 5.0, "a site's power over its computers', from 1 to 5");
}

double parse_confidence_of_range(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 1.0, 99.99, "per cent, from 1 to 99.99");
}

double parse_money(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 1e15, "an amount of money from 0");
}

long parse_gpu_count(std::string_view option, std::string_view text) {
  return parse_integer_within(option, text, 1, 10'000'000, "a whole number from 1 to 10000000");
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> names;
  for (const TrainingGpu& gpu : training_gpus()) names.emplace_back(gpu.name);
  return names;
}

EstimateRequest request_of(const EstimateOptions& options) {
  if (!options.gpu || !options.gpus || !options.parameters || !options.tokens) {
    throw UsageError("forecast estimate needs --gpu, --gpus, --params and --tokens");
  }
  EstimateRequest request;
  request.gpu = find_gpu_model(*options.gpu);
  if (request.gpu == nullptr) {
    throw UsageError(
        fmt::format("--gpu '{}' is not in the table; it has {}", *options.gpu, fmt::join(known_gpus(), ", ")));
  }
  if (options.active_parameters && *options.active_parameters > *options.parameters) {
    throw UsageError("--active-params are those that a token uses of all --params, and cannot be more");
  }
  if (options.recompute && !options.utilization) {
    throw UsageError("--recompute needs --mfu, which then counts the second forward too (HFU)");
  }
  request.gpus = *options.gpus;
  request.parameters = *options.parameters;
  request.active_parameters = options.active_parameters;
  request.tokens = *options.tokens;
  request.recompute = options.recompute;
  request.utilization = options.utilization;
  if (options.power_w) request.power = Watts(*options.power_w);
  if (options.node_pct) request.node_factor = 1.0 + *options.node_pct / 100.0;
  request.pue = options.pue;
  request.confidence = options.confidence_pct.value_or(90.0) / 100.0;
  return request;
}

EstimateCharges charges_of(const EstimateOptions& options, const Estimate& estimate) {
  EstimateCharges charges;
  charges.tariff = tariff_of(options.tariff);
  charges.price_per_gpu_hour = options.gpu_hour_price;
  charges.budget = options.budget;
  charges.embodied = options.embodied;
  Tariff& tariff = charges.tariff;
  if (options.start && options.best_start) throw UsageError("--start and --best-start both say when the run begins");
  if ((options.start || options.best_start) && !tariff.carbon && !tariff.prices) {
    throw UsageError("--start and --best-start are for a file of --carbon or --price");
  }
  tariff.start = options.start.value_or(Seconds(0));
  if (options.best_start) {
    tariff.start = best_start(tariff.carbon ? *tariff.carbon : *tariff.prices, Seconds(estimate.seconds.middle));
  }
  return charges;
}

void run_estimate(const EstimateOptions& options, const std::string& command) {
  const Estimate estimate = estimate_run(request_of(options));
  const EstimateCharges charges = charges_of(options, estimate);
  const EstimateBill bill = bill_of_estimate(estimate, charges);
  EstimateReport report{&estimate, &charges, &bill, std::nullopt, options.best_start};
  if (options.tariff.region) report.region = std::string(find_region(*options.tariff.region)->name);
  std::string text = options.format == "json" ? estimate_json(report) : estimate_text(report);
  if (options.run) {
    write_text_file(*options.run, estimated_run_text(estimate, kDefaultSequence, kDefaultBatch));
    if (options.format != "json") text += fmt::format("\nwrote {}\n", *options.run);
  }
  if (options.out) {
    const std::filesystem::path folder(*options.out);
    write_text_file(folder / "estimate.json", estimate_json(report));
    write_text_file(folder / "estimate.html", estimate_html(report, command));
    if (options.format != "json") text += fmt::format("\nwrote {}\n", (folder / "estimate.html").string());
  }
  print_result(text);
}

}  // namespace

void add_forecast_estimate(const Command& forecast, const std::string& command_line) {
  const Command command =
      forecast.add_subcommand("estimate", "a range for a training's energy, before anything is measured");
  const auto options = std::make_shared<EstimateOptions>();
  add_value(command, "--gpu", options->gpu, parse_path, "MODEL",
            fmt::format("GPU model: {}", fmt::join(known_gpus(), ", ")))
      .suggests(known_gpus());
  add_value(command, "--gpus", options->gpus, parse_gpu_count, "N", "number of GPUs");
  add_value(command, "--params", options->parameters, parse_amount, "N", "the model's parameters: 70e9 or 70B");
  add_value(command, "--active-params", options->active_parameters, parse_amount, "N",
            "parameters that a token uses, for a mixture of experts");
  add_value(command, "--tokens", options->tokens, parse_amount, "N", "tokens that are trained on: 2e12 or 2T");
  add_value(command, "--mfu", options->utilization, parse_utilization, "SHARE",
            "share of the GPUs' peak that the whole run uses, 0 to 1 (default: a range from published runs)");
  command.add_flag("--recompute", options->recompute,
                   "all activations are computed twice; --mfu then counts that, too (HFU)");
  add_value(command, "--power", options->power_w, parse_gpu_power, "WATTS",
            "power of one GPU at load (default: a range from measurements)");
  add_value(
      command, "--node-overhead", options->node_pct, parse_node_percent, "PERCENT",
      "what a node draws beside its GPUs, fans and power supplies included, in per cent of these (default: a range)");
  add_value(command, "--pue", options->pue, parse_pue, "PUE",
            "the site's power usage effectiveness (default: a range)");
  add_value(command, "--confidence", options->confidence_pct, parse_confidence_of_range, "PERCENT",
            "confidence of the ranges, 1 to 99.99 (default 90)");
  add_tariff_options(command, options->tariff);
  add_value(command, "--start", options->start, parse_duration_or_zero, "TIME",
            "with a file of --carbon, or else of --price: time from its first row to the begin of the run (default 0)");
  command.add_flag("--best-start", options->best_start,
                   "begin when the run brings about the least CO2, or else costs least");
  command.add_flag("--embodied", options->embodied, "add the CO2 of making the hardware, by its share of its life");
  add_value(command, "--gpu-hour-price", options->gpu_hour_price, parse_money, "PRICE", "price of one GPU for an hour");
  add_value(command, "--budget", options->budget, parse_money, "MONEY", "says how many tokens so much money buys");
  add_value(command, "--write", options->run, parse_path, "RUN.toml",
            "write the estimate as a run description, to be measured stage by stage");
  add_format(command, options->format);
  add_value(command, "--out", options->out, parse_path, "DIR", "write estimate.html and estimate.json there");
  command.footer(
      "Examples:\n"
      "  flyball forecast estimate --gpu h100 --gpus 512 --params 70B --tokens 2T\n"
      "  flyball forecast estimate --gpu a100 --gpus 64 --params 7B --tokens 1T \\\n"
      "    --mfu 0.45 --pue 1.2 --region FRA --embodied --gpu-hour-price 1.5 \\\n"
      "    --budget 100000 --write run.toml");
  command.callback([options, command_line] { run_estimate(*options, command_line); });
}

}  // namespace flyball
