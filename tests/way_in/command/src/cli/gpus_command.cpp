// flyball gpus: the GPU models that synthetic profiles can be made for.
#include <memory>
#include <optional>
#include <string>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "draw/text_table.h"
#include "profile/gpu_model.h"

namespace flyball {
namespace {

void run_gpus(const std::optional<std::string>& format) {
  TextTable table({"<name", "highest clock (MHz)"});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& name : gpu_models()) {
    const Megahertz highest = load_gpu_model(name).maximum;
    table.add_row({name, format_fixed(highest.value(), 0)});
    list.push_back({{"name", name}, {"highest_clock_mhz", highest.value()}});
  }
  print_result(format == "json" ? list.dump(2) + "\n" : table.str());
}

}  // namespace

void add_gpus_command(const Command& program) {
  const Command command = program.add_subcommand("gpus", "list the GPU models that profile synth knows");
  const auto format = std::make_shared<std::optional<std::string>>();
  add_choice(command, "--format", *format, {"text", "json"}, "NAME", "text (default) or json");
  command.footer("Examples:\n  flyball gpus\n  flyball gpus --format json");
  command.callback([format] { run_gpus(*format); });
}

}  // namespace flyball
