// flyball profile fit: a profile and a pipeline file from recorded runs.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "draw/text_table.h"
#include "replay/fit_iteration.h"

namespace flyball {
namespace {

struct ProfileFitOptions {
  std::vector<std::string> runs;
  std::optional<std::string> schedule;
  std::optional<std::string> out;
  std::optional<std::string> format;
};

// A fitted number with its name, shown in `unit` with so many decimals.
struct Line {
  std::string what;
  std::string where;
  Fitted fitted;
  std::string unit;
  int decimals = 1;
};

std::vector<Line> lines_of(const IterationModel& model) {
  constexpr double kMilli = 1e3;
  const auto milliseconds = [&](const Fitted& f) { return Fitted{f.value * kMilli, f.deviation * kMilli}; };
  std::vector<Line> lines;
  for (std::size_t k = 0; k < model.transfer.size(); ++k) {
    lines.push_back({"transfer", fmt::format("stages {} and {}", k, k + 1), milliseconds(model.transfer[k]), "ms", 2});
  }
  for (std::size_t s = 0; s < model.loading.size(); ++s) {
    if (model.loading[s].value <= 0.0) continue;
    lines.push_back({"loading", fmt::format("stage {}", s), milliseconds(model.loading[s]), "ms", 2});
  }
  lines.push_back({"once per iteration", "", milliseconds(model.once), "ms", 2});
  lines.push_back({"a clock takes hold after", "", milliseconds(model.latency), "ms", 2});
  lines.push_back({"power limit", "", model.power.limit, "W", 1});
  const std::vector<WaitingPower>& waiting = model.waiting.front();
  for (const WaitingPower* one : {&waiting.front(), &waiting.back()}) {
    lines.push_back({"waiting",
                     fmt::format("at {:g} MHz", one->clock.value()),
                     {one->power.value(), one->deviation.value()},
                     "W",
                     1});
    if (waiting.size() == 1) break;
  }
  return lines;
}

std::string profile_fit_text(const RecordedIteration& iteration, const IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  std::string text = fmt::format("{}: {}, {}, {}, fitted to {}\n\n", runs.source, counted(runs.stages, "stage"),
                                 counted(runs.microbatches, "microbatch", "es"), schedule_name(iteration.schedule()),
                                 counted(static_cast<long>(model.points.size()), "point"));
  TextTable constants({"<fitted", "<where", "value", "sd", "<unit"});
  for (const Line& line : lines_of(model)) {
    constants.add_row({line.what, line.where, format_fixed(line.fitted.value, line.decimals),
                       format_fixed(line.fitted.deviation, line.decimals), line.unit});
  }
  const auto apart = [](const Fitted& ratio) {
    return ratio.value == 1.0 ? std::string("-") : format_signed(100.0 * (ratio.value - 1.0), 1);
  };
  TextTable costs(
      {"stage", "<instruction", "clocks (MHz)", "rows", "time (s)", "sd %", "energy (J)", "sd %", "first %", "last %"});
  for (int stage = 0; stage < runs.stages; ++stage) {
    for (std::size_t k = 0; k < model.instructions.size(); ++k) {
      const std::vector<ClockCost>& own = model.costs[model.place(stage, static_cast<int>(k))];
      const ClockCost& top = own.front();
      const OwnRatios& ratios = model.own[model.place(stage, static_cast<int>(k))];
      costs.add_row({fmt::to_string(stage), model.instructions[k],
                     fmt::format("{:g}-{:g}", own.back().clock.value(), top.clock.value()), fmt::to_string(own.size()),
                     format_fixed(top.time.value(), 5), format_fixed(100.0 * (top.time_deviation / top.time), 2),
                     format_fixed((top.power * top.time).value(), 2),
                     format_fixed(100.0 * (top.power_deviation / top.power), 2), apart(ratios.first),
                     apart(ratios.last)});
    }
  }
  return text + constants.str() +
         fmt::format(
             "\nAt the highest clock of each (sd: standard deviation; first, last: how much longer the first\n"
             "and the last microbatch's operation takes, where it is kept apart):\n\n{}",
             costs.str());
}

std::string profile_fit_json(const RecordedIteration& iteration, const IterationModel& model) {
  nlohmann::ordered_json json = {{"runs", iteration.runs().source},
                                 {"schedule", schedule_name(iteration.schedule())},
                                 {"stages", iteration.runs().stages},
                                 {"microbatches", iteration.runs().microbatches},
                                 {"points", model.points}};
  nlohmann::ordered_json fitted = nlohmann::ordered_json::array();
  for (const Line& line : lines_of(model)) {
    fitted.push_back({{"what", line.what},
                      {"where", line.where},
                      {"value", line.fitted.value},
                      {"deviation", line.fitted.deviation},
                      {"unit", line.unit}});
  }
  json["fitted"] = std::move(fitted);
  return json.dump(2) + "\n";
}

void run_profile_fit(const ProfileFitOptions& options) {
  const InterruptExit exit;
  std::optional<WorkLine> line("fitting");
  const RecordedRuns runs = join_runs(read_each(options.runs));
  const RecordedIteration iteration(runs, parse_schedule(options.schedule.value_or("1f1b")));
  const IterationModel model = fit_iteration(iteration, runs.judged());
  line.reset();
  std::string text = options.format == "json" ? profile_fit_json(iteration, model) : profile_fit_text(iteration, model);
  if (options.out) {
    const std::filesystem::path folder = *options.out;
    write_text_file(folder / "profile.csv", fitted_profile(iteration, model));
    write_text_file(folder / "pipeline.toml", fitted_pipeline(iteration, model));
    if (options.format != "json") {
      text += fmt::format("\nwrote {0}/profile.csv and {0}/pipeline.toml\n", folder.string());
    }
  }
  print_result(text);
}

}  // namespace

void add_profile_fit_command(const Command& parent) {
  const Command command = parent.add_subcommand("fit", "make a profile and a pipeline file from recorded runs");
  const auto options = std::make_shared<ProfileFitOptions>();
  command
      .add_option("RUNS", options->runs,
                  "folder with points.csv, runs.csv and operations.csv; several of one pipeline are fitted together")
      .type_name("FOLDER")
      .required();
  add_choice(command, "--schedule", options->schedule, schedule_names(), "NAME",
             "schedule of the recorded runs (default 1f1b)");
  add_value(command, "--out", options->out, parse_path, "FOLDER", "write profile.csv and pipeline.toml there");
  add_format(command, options->format);
  command.footer(
      "Recorded iterations at known clocks say what each operation takes at each clock,\n"
      "and what an iteration has besides: transfers that occupy both stages, loading, a\n"
      "part once per iteration, the power of waiting, the board's power limit.\n\n"
      "Examples:\n"
      "  flyball profile fit examples/runs/two-stage\n"
      "  flyball profile fit examples/runs/two-stage examples/runs/two-stage-by-stage\n"
      "  flyball profile fit examples/runs/two-stage --out out/two-stage\n"
      "  flyball plan out/two-stage/profile.csv --pipeline out/two-stage/pipeline.toml");
  command.callback([options] { run_profile_fit(*options); });
}

}  // namespace flyball
