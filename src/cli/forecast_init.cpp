// RUN.toml is put together as text, line by line, since its comments are what it is for: a value that was measured is
// written as it is, any other is a guess and marked CHANGE.
#include "cli/forecast_init.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "forecast/run_draft.h"

namespace flyball {
namespace {

struct InitOptions {
  DraftSources sources;
  std::optional<std::string> out;
  std::optional<int> microbatches;
  std::optional<int> nodes;
};

void check(const InitOptions& options) {
  const std::vector<std::string>& traces = options.sources.traces;
  if (!traces.empty() && options.sources.profile) throw UsageError("forecast init: --trace or --profile, not both");
  if (options.microbatches && !options.sources.profile) {
    throw UsageError("forecast init: --microbatches needs --profile");
  }
  std::set<std::string> seen;
  for (const std::string& file : traces) {
    if (seen.insert(file).second) continue;
    throw UsageError(fmt::format("forecast init: --trace {} twice; give one file for every rank", file));
  }
  if (options.nodes && *options.nodes < static_cast<int>(traces.size())) {
    throw UsageError(fmt::format("forecast init: --nodes {}, but traces of {} ranks", *options.nodes, traces.size()));
  }
}

void run_init(InitOptions& options) {
  check(options);
  options.sources.microbatches = options.microbatches.value_or(1);
  options.sources.nodes = options.nodes.value_or(1);
  const InterruptExit exit;
  std::optional<WorkLine> line("reading what was measured");
  const std::string text = draft_run(options.sources);
  line.reset();
  if (!options.out) return print_data(text);
  write_text_file(*options.out, text);
  print_result(fmt::format("wrote {}; change what is marked, then: flyball forecast {}\n", *options.out, *options.out));
}

}  // namespace

void add_forecast_init(const Command& forecast) {
  const Command command = forecast.add_subcommand("init", "write a commented RUN.toml to begin with");
  const auto options = std::make_shared<InitOptions>();
  command
      .add_option("--trace", options->sources.traces,
                  "trace of PyTorch's profiler (Chrome trace JSON) to take stage times from; give one of every rank, "
                  "since one rank's communication includes its wait for slower ranks")
      .type_name("FILE");
  add_value(command, "--profile", options->sources.profile, parse_path, "FILE",
            "profile that a flyball client measured, to take forward and backward times from");
  add_value(command, "--microbatches", options->microbatches, parse_count, "N",
            "with --profile: number of forwards of a stage in one iteration (default 1)");
  add_value(command, "--power", options->sources.power, parse_path, "FILE",
            "power trace that flyball record wrote, to take component powers from");
  add_value(command, "--nodes", options->nodes, parse_count, "N",
            "number of nodes (of each type) of the run (default 1, or the number of traced ranks)");
  add_value(command, "-o,--output", options->out, parse_path, "FILE", "write to this file");
  command.footer(
      "Examples:\n"
      "  flyball forecast init -o run.toml\n"
      "  flyball forecast init --nodes 8 --microbatches 32 \\\n"
      "    --profile examples/profiles/bert-1.3b-a100-4stage.csv");
  command.callback([options] { run_init(*options); });
}

}  // namespace flyball
