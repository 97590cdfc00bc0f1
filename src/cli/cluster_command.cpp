// flyball cluster: what a cluster of GPUs would do with a trace of jobs under a policy and a power budget.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/record_codec.h"
#include "base/text.h"
#include "cli/cluster_options.h"
#include "cli/cluster_output.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "cluster/held_out_fit.h"
#include "cluster/job_model.h"
#include "cluster/outside_error.h"
#include "cluster/random.h"
#include "draw/text_table.h"
#include "profile/gpu_model.h"
#include "report/cluster_report.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

// ---- simulate

struct SimulateOptions {
  ClusterOptions cluster;
  std::optional<std::string> policy;
  std::optional<std::string> out;
  std::optional<std::string> format;
};

std::string result_text(const SimulationResult& result, const ClusterState& state, double wall_seconds) {
  const ClusterSpec& spec = state.spec;
  TextTable table({"<", "value", "<unit"});
  for (const ClusterFigure& one : cluster_figures(result)) {
    table.add_row({one.name, format_fixed(one.value, one.decimals), one.unit});
  }
  return fmt::format("{}: {} on {} of {} {} each, limit {:.0f} W\n\n{}\nsimulated in {:.3f} s\n", result.policy,
                     counted(static_cast<long>(result.jobs), "job"), counted(spec.nodes, "node"),
                     counted(spec.gpus_per_node, "GPU"), spec.gpu, state.power_limit.value(), table.str(),
                     wall_seconds);
}

std::string jobs_csv(const ClusterState& state) {
  std::string text =
      "job,model,batch_size,requested_gpus,submit_s,start_s,finish_s,jct_s,gpu_seconds,energy_j,restarts\n";
  for (std::size_t index = 0; index < state.jobs.size(); ++index) {
    const ClusterJob& job = state.jobs[index];
    const ClusterJobKind& kind = state.kinds[static_cast<std::size_t>(job.kind)];
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", index, kind.model, kind.batch_size, job.requested_gpus,
                        job.submit.value(), job.first_start.value(), job.finish.value(),
                        (job.finish - job.submit).value(), job.gpu_time.value(), job.energy.value(), job.restarts);
  }
  return text;
}

std::string power_csv(const SimulationHistory& history) {
  std::string text = "time_s,gpus,waiting_jobs,nodes_on,power_w\n";
  for (const ClusterPower& sample : history.power) {
    text += fmt::format("{},{},{},{},{}\n", sample.at.value(), sample.gpus, sample.waiting, sample.nodes_on,
                        sample.power.value());
  }
  return text;
}

void run_simulate(const SimulateOptions& options, const std::string& command_line) {
  const InterruptGuard guard;
  const auto begin = std::chrono::steady_clock::now();
  const ClusterInput input = load_cluster(options.cluster);
  SimulationSetup setup = input.setup;
  setup.record = options.out.has_value();
  const std::string policy = options.policy.value_or(std::string(kDefaultPolicy));
  warn_of_ignored_options(options.cluster, heeded_options({policy}));
  Simulation simulation(setup, input.truth, input.trace, policy, input.policy);
  {
    ProgressBar bar("simulating");
    simulation.run([&](double share) {
      guard.throw_if_interrupted();
      bar.update(share);
      return true;
    });
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const SimulationResult result = simulation.result();
  Json json = result_json(result);
  json["wall_seconds"] = wall.count();
  if (options.out) {
    const std::filesystem::path folder(*options.out);
    write_text_file(folder / "result.json", json.dump(2) + "\n");
    write_text_file(folder / "jobs.csv", jobs_csv(simulation.state()));
    write_text_file(folder / "power.csv", power_csv(simulation.history()));
    write_text_file(folder / "report.html", cluster_html({setup, simulation, command_line}));
  }
  print_result(options.format == "json" ? json.dump(2) + "\n" : result_text(result, simulation.state(), wall.count()));
}

void add_simulate(const Command& parent, const std::string& command_line) {
  const Command command = parent.add_subcommand("simulate", "run a trace of jobs under one policy");
  const auto options = std::make_shared<SimulateOptions>();
  add_cluster_options(command, options->cluster);
  add_choice(command, "--policy", options->policy, policy_names(), "NAME",
             fmt::format("scheduling policy: {} (default {})", fmt::join(policy_names(), ", "), kDefaultPolicy));
  add_value(command, "--out", options->out, parse_path, "DIR",
            "write report.html, result.json, jobs.csv and power.csv there");
  add_format(command, options->format);
  command.footer(
      "Costs come from a synthetic table of five networks, or from --table. JCT is job\n"
      "completion time; energy is that of the GPUs, idle ones included.\n\n"
      "Examples:\n"
      "  flyball cluster simulate --trace examples/cluster/day.csv --eta 0.7\n"
      "  flyball cluster simulate --trace examples/cluster/day.csv --policy fifo \\\n"
      "    --nodes 16 --gpus-per-node 4 --gpu v100 --format json");
  command.callback([options, command_line] { run_simulate(*options, command_line); });
}

// ---- fit

struct FitOptions {
  std::string measurements;
  std::optional<double> holdout;
  std::optional<std::string> gpu;
  std::optional<double> voltage_break;
  std::optional<int> seed;
  bool outside = false;
  std::optional<std::string> format;
};

double parse_share(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 0.9, "a share from 0 to 0.9");
}

struct FittedModel {
  std::string name;
  HeldOutFit fit;
};

Json power_json(const PowerModel& power) {
  return {{"kappa_grad_w", power.grad},
          {"theta", power.theta},
          {"beta", power.beta},
          {"sync_w", power.sync},
          {"static_w", power.static_power}};
}

Json sync_json(const SyncModel& sync) {
  return {{"alpha_s", sync.alpha},
          {"kappa_s", sync.kappa},
          {"beta_s", sync.beta},
          {"theta_s", sync.theta},
          {"rho_s", sync.rho}};
}

Json fit_json(const FittedModel& fitted) {
  const HeldOutFit& one = fitted.fit;
  const ThroughputModel& time = one.model.throughput();
  return {{"model", fitted.name},
          {"fitted", one.fitted},
          {"held_out", one.held},
          {"fitted_mape_time", write_value(one.on_fitted.time)},
          {"fitted_mape_energy", write_value(one.on_fitted.energy)},
          {"mape_time", write_value(one.on_held.time)},
          {"mape_energy", write_value(one.on_held.energy)},
          {"voltage_break_mhz", one.model.voltage_break().value()},
          {"throughput",
           {{"alpha_io_s", time.alpha_io},
            {"beta_io_s", time.beta_io},
            {"alpha_grad_s", time.alpha_grad},
            {"beta_grad_s", time.beta_grad},
            {"kappa_grad_s", time.kappa_grad},
            {"sync_local", sync_json(time.local)},
            {"sync_node", sync_json(time.node)},
            {"gamma_1", time.gamma1},
            {"gamma_2", time.gamma2}}},
          {"power_below", power_json(one.model.low())},
          {"power_above", power_json(one.model.high())}};
}

void print_outside(const MeasurementSet& measured, Megahertz f0, const FitOptions& options,
                   const InterruptGuard& guard) {
  std::vector<std::pair<std::string, OutsideError>> models;
  {
    ProgressBar bar("fitting");
    for (const auto& [name, rows] : measured) {
      guard.throw_if_interrupted();
      models.emplace_back(name, outside_error(rows, f0));
      bar.update(static_cast<double>(models.size()) / static_cast<double>(measured.size()));
    }
  }
  if (options.format == "json") {
    Json list = Json::array();
    for (const auto& [name, error] : models) {
      Json one = {{"model", name}};
      const char* const places[] = {"within_node", "to_several_nodes", "several_nodes"};
      for (std::size_t i = 0; i < 3; ++i) {
        one[places[i]] = {{"count", error.steps[i].count}, {"mape_time", write_value(error.steps[i].error)}};
      }
      list.push_back(std::move(one));
    }
    return print_result(Json{{"models", std::move(list)}}.dump(2) + "\n");
  }
  TextTable table({"<model", "within a node (%)", "of (steps)", "to several nodes (%)", "of (steps)",
                   "several nodes (%)", "of (steps)"});
  for (const auto& [name, error] : models) {
    std::vector<std::string> row = {name};
    for (const OutsideError::Step& step : error.steps) {
      row.push_back(step.count > 0 ? format_fixed(100.0 * step.error, 1) : "");
      row.push_back(fmt::to_string(step.count));
    }
    table.add_row(row);
  }
  print_result(fmt::format(
      "mean absolute error of the time at twice the GPUs that the models were fitted to, from that at once\n\n{}",
      table.str()));
}

void run_fit(const FitOptions& options) {
  const InterruptGuard guard;
  ClusterSpec spec;
  spec.gpu = options.gpu.value_or("v100");
  const GpuModel gpu = load_gpu_model(spec.gpu);
  const Megahertz f0 = options.voltage_break ? Megahertz(*options.voltage_break) : voltage_break_of(gpu);
  if (f0 < gpu.minimum || f0 > gpu.maximum) {
    throw UsageError(fmt::format("--voltage-break is {:g} MHz; the clocks of a {} are from {:g} to {:g} MHz",
                                 f0.value(), gpu.name, gpu.minimum.value(), gpu.maximum.value()));
  }
  const MeasurementSet measured = read_measurements_of(gpu, options.measurements);
  if (options.outside && options.holdout) {
    throw UsageError("--outside holds out sizes and --holdout rows; give one of them");
  }
  if (options.outside) return print_outside(measured, f0, options, guard);
  const double holdout = options.holdout.value_or(0.1);
  Random random(static_cast<std::uint64_t>(options.seed.value_or(1)));
  std::vector<FittedModel> models;
  {
    ProgressBar bar("fitting");
    for (const auto& [name, rows] : measured) {
      guard.throw_if_interrupted();
      models.push_back({name, fit_held_out(rows, f0, holdout, random)});
      bar.update(static_cast<double>(models.size()) / static_cast<double>(measured.size()));
    }
  }
  if (options.format == "json") {
    Json list = Json::array();
    for (const FittedModel& one : models) list.push_back(fit_json(one));
    return print_result(Json{{"holdout", holdout}, {"models", std::move(list)}}.dump(2) + "\n");
  }
  TextTable table({"<model", "fitted (rows)", "time (%)", "energy (%)", "held out (rows)", "time (%)", "energy (%)"});
  for (const auto& [name, one] : models) {
    table.add_row({name, fmt::to_string(one.fitted), format_fixed(100.0 * one.on_fitted.time, 2),
                   format_fixed(100.0 * one.on_fitted.energy, 2), fmt::to_string(one.held),
                   format_fixed(100.0 * one.on_held.time, 2), format_fixed(100.0 * one.on_held.energy, 2)});
  }
  print_result(fmt::format("mean absolute errors (MAPE) of the models, voltage break at {:.0f} MHz\n\n{}", f0.value(),
                           table.str()));
}

void add_fit(const Command& parent) {
  const Command command = parent.add_subcommand("fit", "fit performance models to measured iterations");
  const auto options = std::make_shared<FitOptions>();
  command.add_option("MEASUREMENTS", options->measurements, "CSV of step times and energies")
      .type_name("FILE")
      .required();
  add_value(command, "--holdout", options->holdout, parse_share, "SHARE",
            "share of the rows that is left out of the fit, and then predicted (default 0.1)");
  add_value(command, "--gpu", options->gpu, parse_path, "NAME", "GPU model, for its clocks (default v100)")
      .suggests(gpu_models());
  add_value(command, "--voltage-break", options->voltage_break, parse_positive, "MHZ",
            "clock in MHz above which the voltage rises, f0 (default: the GPU model's)");
  add_value(command, "--seed", options->seed, parse_count, "N",
            "seed that decides which rows are held out (default 1)");
  command.add_flag(
      "--outside", options->outside,
      "instead of holding out rows: fit to jobs of up to n GPUs and predict jobs of 2 n, for n = 1, 2, 4, ...");
  add_format(command, options->format);
  command.footer(
      "Columns: model,gpus,nodes,batch_size,clock_mhz,step_time_s,step_energy_j. Step\n"
      "times of the Pollux and Sia artifacts are read, too.\n\n"
      "Examples:\n"
      "  flyball cluster fit data/cluster/v100.csv\n"
      "  flyball cluster fit MEASUREMENTS.csv --gpu a100 --holdout 0.2 --format json");
  command.callback([options] { run_fit(*options); });
}

}  // namespace

void add_cluster_command(const Command& program, const std::string& command_line) {
  const Command command =
      program.add_subcommand("cluster", "schedule a cluster's jobs under a power budget, simulated or real");
  add_simulate(command, command_line);
  add_cluster_compare_command(command, command_line);
  add_fit(command);
  add_cluster_trace_command(command);
  add_cluster_run_commands(command);
  add_cluster_report_command(command);
}

}  // namespace flyball
