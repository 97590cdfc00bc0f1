// flyball profile compose: a profile of operations from measurements of their segments.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "draw/text_table.h"
#include "profile/composition.h"

namespace flyball {
namespace {

struct ProfileComposeOptions {
  std::string composition;
  double blocking = ComposeTerms().blocking.value();
  double tolerance_pct = 0.0;
  std::optional<std::string> out;
  std::optional<std::string> format;
};

std::string profile_compose_text(const Composition& composition, const ComposedProfile& composed) {
  TextTable table({"stage", "<instruction", "clocks", "combinations", "options"});
  for (const ComposedFigures& one : composed.figures) {
    table.add_row({fmt::to_string(one.stage), one.instruction, fmt::to_string(one.clocks),
                   fmt::format("{:.15g}", one.combinations), fmt::to_string(one.options)});
  }
  return fmt::format("{}: {}, {}\n\n{}", composition.source,
                     counted(static_cast<long>(composition.layers.size()), "stage"),
                     counted(static_cast<long>(composition.segments.size()), "segment"), table.str());
}

std::string profile_compose_json(const Composition& composition, const ComposedProfile& composed) {
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  for (const ComposedFigures& one : composed.figures) {
    operations.push_back({{"stage", one.stage},
                          {"instruction", one.instruction},
                          {"clocks", one.clocks},
                          {"combinations", one.combinations},
                          {"options", one.options}});
  }
  const nlohmann::ordered_json json = {{"composition", composition.source},
                                       {"stages", composition.layers.size()},
                                       {"segments", composition.segments.size()},
                                       {"labels", composed.profile.label_columns},
                                       {"operations", std::move(operations)}};
  return json.dump(2) + "\n";
}

void run_profile_compose(const ProfileComposeOptions& options) {
  const InterruptExit exit;
  std::optional<WorkLine> line("composing");
  const Composition composition = read_composition_file(options.composition);
  const ComposeTerms terms{Watts(options.blocking), options.tolerance_pct / 100.0};
  const ComposedProfile composed = compose_profile(composition, terms);
  line.reset();
  std::string text = options.format == "json" ? profile_compose_json(composition, composed)
                                              : profile_compose_text(composition, composed);
  if (options.out) {
    const std::string name = std::filesystem::path(options.composition).filename().string();
    write_text_file(
        *options.out,
        write_profile(
            composed.profile,
            {fmt::format("Composed from {} by flyball profile compose; options that no other one", name),
             fmt::format("beats, net of {} W blocking, within {} %.", options.blocking, options.tolerance_pct)}));
    if (options.format != "json") text += fmt::format("\nwrote {}\n", *options.out);
  }
  print_result(text);
}

}  // namespace

void add_profile_compose_command(const Command& parent) {
  const Command command =
      parent.add_subcommand("compose", "make a profile with labels from measured segments of layers");
  const auto options = std::make_shared<ProfileComposeOptions>();
  command.add_option("FILE", options->composition, "composition file: the segments of each operation (TOML)")
      .type_name("FILE")
      .required();
  add_value(
      command, "--blocking-power", options->blocking,
      [](std::string_view option, std::string_view text) {
        return parse_number_within(option, text, 0.0, 1e6, "a number of watts from 0 to 1e6");
      },
      "W", "the most that a GPU draws while it waits; what only pays above it is left out (default 75)");
  add_value(command, "--tolerance", options->tolerance_pct, parse_percent, "PERCENT",
            "leave out what saves less than so much of an operation's energy (default 0)");
  add_value(command, "--out", options->out, parse_path, "FILE", "write the profile there");
  add_format(command, options->format);
  command.footer(
      "A segment is a part of a layer that was measured with several settings, at several\n"
      "clocks. Of all combinations only those are kept that no other one beats.\n\n"
      "Examples:\n"
      "  flyball profile compose examples/segments/composition.toml\n"
      "  flyball profile compose examples/segments/composition.toml --out out/composed.csv\n"
      "  flyball plan out/composed.csv --microbatches 8");
  command.callback([options] { run_profile_compose(*options); });
}

}  // namespace flyball
