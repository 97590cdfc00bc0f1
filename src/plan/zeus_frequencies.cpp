// Writes plans as the Python expressions that Zeus reads.
#include "plan/zeus_frequencies.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/text.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool is_announced(const OperationType& type) { return type.occupies_stage && !is_constant_operation(type.instruction); }

// A Python string literal, with control characters escaped.
std::string python_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string zeus_frequencies(const ComputationDag& dag, const ClockPlan& plan, const std::string& comment) {
  std::string out = "[\n";
  for (int stage = 0; stage < dag.stages(); ++stage) {
    out += '[';
    bool first = true;
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      if (!is_announced(type)) continue;
      const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
      out += fmt::format("{}({}, {})", first ? "" : ", ", python_string(announced_name(type.instruction)),
                         std::llround(option.frequency.value()));
      first = false;
    }
    out += "],\n";
  }
  out += "]\n";
  for (std::size_t begin = 0; begin < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', begin), comment.size());
    out += "# " + comment.substr(begin, end - begin) + '\n';
    begin = end + 1;
  }
  return out;
}

std::string zeus_file_name(std::size_t number) { return fmt::format("freqs_pipeline_{:05d}.py", number); }

std::size_t write_zeus_files(const std::filesystem::path& folder, const ComputationDag& dag, const Frontier& frontier) {
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const std::string comment = fmt::format("iteration time {:.6f} s\nenergy {:.3f} J per iteration, blocking included",
                                            frontier.time(i).value(), frontier.energy(i).value());
    write_text_file(folder / zeus_file_name(frontier.size() - 1 - i), zeus_frequencies(dag, frontier.plan(i), comment));
  }
  return frontier.size();
}

}  // namespace flyball
