// flyball cluster compare: policies side by side on one trace.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/record_codec.h"
#include "base/text.h"
#include "cli/cluster_options.h"
#include "cli/cluster_output.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/pipeline_options.h"
#include "cluster/comparison.h"
#include "draw/text_table.h"
#include "report/cluster_picture.h"
#include "report/comparison_report.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPictureWidth = 760;

struct CompareOptions {
  ClusterOptions cluster;
  std::optional<std::vector<std::string>> policies;
  std::optional<std::vector<double>> clocks;
  std::optional<std::vector<double>> etas;
  std::optional<std::vector<double>> zeus_etas;
  std::optional<std::string> sweep;
  std::optional<std::string> svg;
  std::optional<std::string> out;
  std::optional<std::string> format;
};

// `all` stands for every policy, the default one first.
std::vector<std::string> parse_policies(std::string_view /*option*/, std::string_view text) {
  if (text != "all") {
    const std::vector<std::string_view> named = split_at(',', text);
    return {named.begin(), named.end()};
  }
  std::vector<std::string> names = policy_names();
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kDefaultPolicy; });
  return names;
}

Json comparison_json(const std::vector<ComparedRun>& runs, double wall_seconds) {
  const ComparedRun& main = reference_run(runs);
  const SimulationResult& reference = main.result;
  Json list = Json::array();
  for (const ComparedRun& run : runs) {
    Json json = result_json(run.result);
    json[std::string(name_of(run.setting))] = run.value;
    json["jct_ratio"] = run.result.avg_jct_s / reference.avg_jct_s;
    json["energy_ratio"] = run.result.energy_j / reference.energy_j;
    json["jct_ratio_at_equal_energy"] = write_value(jct_ratio_at_equal_energy(runs, run));
    list.push_back(std::move(json));
  }
  return {{"reference", main.policy}, {"runs", std::move(list)}, {"wall_seconds", wall_seconds}};
}

std::string comparison_text(const std::vector<ComparedRun>& runs, const ClusterSpec& spec, double wall_seconds) {
  const ComparedRun& main = reference_run(runs);
  const SimulationResult& reference = main.result;
  const std::string unit = fmt::format("x {}", main.policy);
  const bool sweeps =
      std::count_if(runs.begin(), runs.end(), [&](const ComparedRun& run) { return run.policy == main.policy; }) > 1;
  std::vector<std::string> columns = {"<policy",
                                      "<setting",
                                      "average JCT (s)",
                                      "99 % JCT (s)",
                                      "makespan (s)",
                                      "energy (MJ)",
                                      fmt::format("JCT ({})", unit),
                                      fmt::format("energy ({})", unit)};
  if (sweeps) columns.push_back(fmt::format("JCT at equal energy ({})", unit));
  TextTable table(columns);
  for (const ComparedRun& run : runs) {
    const SimulationResult& result = run.result;
    std::vector<std::string> row = {run.policy,
                                    setting_text(run),
                                    format_fixed(result.avg_jct_s, 1),
                                    format_fixed(result.p99_jct_s, 1),
                                    format_fixed(result.makespan_s, 0),
                                    format_fixed(result.energy_j / 1e6, 3),
                                    format_fixed(result.avg_jct_s / reference.avg_jct_s, 2),
                                    format_fixed(result.energy_j / reference.energy_j, 2)};
    if (sweeps) {
      const auto ratio = jct_ratio_at_equal_energy(runs, run);
      row.push_back(ratio ? format_fixed(*ratio, 2) : "-");
    }
    table.add_row(std::move(row));
  }
  return fmt::format("{} on {} of {} {} each, compared with {} at {}\n\n{}\nsimulated in {:.3f} s\n",
                     counted(static_cast<long>(reference.jobs), "job"), counted(spec.nodes, "node"),
                     counted(spec.gpus_per_node, "GPU"), spec.gpu, main.policy, setting_text(main), table.str(),
                     wall_seconds);
}

constexpr int kSweptClocks = 7;

// Some of the clocks that jobs may have, evenly apart, from the lowest to the highest.
std::vector<Megahertz> swept_clocks(const ClusterInput& input) {
  ClusterSpec spec = input.setup.spec;
  complete_spec(spec, input.truth);
  const auto last = static_cast<int>(spec.clocks.size()) - 1;
  std::vector<Megahertz> clocks;
  for (int k = 0; k < kSweptClocks; ++k) {
    const Megahertz clock = spec.clocks[static_cast<std::size_t>(k * last / (kSweptClocks - 1))];
    if (clocks.empty() || clocks.back() < clock) clocks.push_back(clock);
  }
  return clocks;
}

ComparisonRequest request_of(const CompareOptions& options, const ClusterInput& input) {
  ComparisonRequest request;
  request.policies = options.policies.value_or(parse_policies("--policies", "all"));
  const bool sweep = options.sweep.has_value();
  if (options.clocks) {
    for (const double clock : *options.clocks) request.clocks.emplace_back(clock);
  } else if (sweep) {
    request.clocks = swept_clocks(input);
  }
  if (sweep) {
    request.etas = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0};  // the last tenth decides most
    request.zeus_etas = {0.0, 0.25, 0.5, 0.75, 1.0};
  }
  if (options.etas) request.etas = *options.etas;
  if (options.zeus_etas) request.zeus_etas = *options.zeus_etas;
  request.record = options.out.has_value();
  return request;
}

void run_compare(const CompareOptions& options, const std::string& command_line) {
  const InterruptGuard guard;
  const auto begin = std::chrono::steady_clock::now();
  const ClusterInput input = load_cluster(options.cluster);
  const ComparisonRequest request = request_of(options, input);
  const HeededOptions heeded = heeded_options(request.policies);
  warn_of_ignored_options(options.cluster, heeded);
  warn_if_ignored("--clocks", options.clocks.has_value(), heeded.clock, kForOneClock);
  warn_if_ignored("--etas", options.etas.has_value(), heeded.eta, kForBudgets);
  warn_if_ignored("--zeus-etas", options.zeus_etas.has_value(), heeded.zeus_eta, kForZeus);
  std::vector<ComparedRun> runs;
  {
    ProgressBar bar("simulating");
    runs = compare_policies(input.setup, input.truth, input.trace, input.policy, request, [&](double share) {
      bar.update(share);
      return !guard.interrupted();
    });
  }
  guard.throw_if_interrupted();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const std::string json = comparison_json(runs, wall.count()).dump(2) + "\n";
  if (options.svg) write_text_file(*options.svg, jct_energy_picture(runs, kPictureWidth).standalone());
  ClusterSpec spec = input.setup.spec;
  if (options.out) {
    complete_spec(spec, input.truth);
    const std::filesystem::path folder(*options.out);
    write_text_file(folder / "comparison.json", json);
    write_text_file(folder / "report.html", comparison_html({runs, spec, command_line}));
  }
  print_result(options.format == "json" ? json : comparison_text(runs, spec, wall.count()));
}

}  // namespace

void add_cluster_compare_command(const Command& parent, const std::string& command_line) {
  const Command command = parent.add_subcommand("compare", "run a trace of jobs under several policies");
  const auto options = std::make_shared<CompareOptions>();
  add_cluster_options(command, options->cluster);
  add_value(command, "--policies", options->policies, parse_policies, "NAME,...",
            fmt::format("policies to compare: all (default), or some of {}", fmt::join(policy_names(), ", ")))
      .suggests(policy_names());
  add_value(command, "--clocks", options->clocks, parse_list(parse_positive), "MHZ,...",
            "clocks in MHz, at each of which the policies run that choose no clocks themselves")
      .excludes("--clock");
  add_value(command, "--etas", options->etas, parse_list(parse_eta), "SHARE,...",
            "power budgets as for --eta, at each of which the policies run that keep to a budget")
      .excludes("--eta");
  add_value(command, "--zeus-etas", options->zeus_etas, parse_list(parse_zeus_eta), "SHARE,...",
            "weights as for --zeus-eta, at each of which the policies with Zeus's clocks run")
      .excludes("--zeus-eta");
  add_choice(command, "--sweep", options->sweep, {"energy"}, "NAME",
             "energy: runs from little energy to much; seven clocks, nine budgets and five weights of Zeus's where "
             "none are listed")
      .excludes("--clock")
      .excludes("--eta")
      .excludes("--zeus-eta");
  add_value(command, "--svg", options->svg, parse_path, "FILE", "write average JCT against energy as a picture");
  add_value(command, "--out", options->out, parse_path, "DIR",
            "write report.html (every policy over time, among others) and comparison.json there");
  add_format(command, options->format);
  command.footer(
      "Each policy is compared with joule-price, or with the first policy if\n"
      "joule-price is not among them: by its first run, or if it has several, at equal\n"
      "energy. Only joule-price and powerflow keep to --eta.\n\n"
      "Examples:\n"
      "  flyball cluster compare --trace examples/cluster/day.csv --eta 0.7\n"
      "  flyball cluster compare --trace examples/cluster/day.csv \\\n"
      "    --policies joule-price,tiresias --sweep energy --out out/compare\n"
      "  flyball cluster compare --trace examples/cluster/day.csv \\\n"
      "    --policies joule-price,afs,tiresias --etas 0.5,0.7,0.9 \\\n"
      "    --clocks 1020,1260,1530");
  command.callback([options, command_line] { run_compare(*options, command_line); });
}

}  // namespace flyball
