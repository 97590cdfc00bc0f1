// Writes plans as the Python expressions that Zeus and Kareus read.
#include "plan/zeus_frequencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/text.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

bool is_announced(const OperationType& type) { return type.occupies_stage && !is_constant_operation(type.instruction); }

// A Python string literal, with control characters escaped.
std::string python_string(std::string_view text, char quote = '"') {
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + quote;
}

// One line per stage, and in it what `entry` says of each announced computation.
template <class Entry>
std::string stage_lists(const ComputationDag& dag, const std::string& comment, Entry entry) {
  std::string out = "[\n";
  for (int stage = 0; stage < dag.stages(); ++stage) {
    out += '[';
    bool first = true;
    for (const int i : dag.stage_order(stage)) {
      const OperationType& type = dag.type_of(i);
      if (!is_announced(type)) continue;
      if (!first) out += ", ";
      out += entry(type, i);
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

}  // namespace

std::string zeus_frequencies(const ComputationDag& dag, const ClockPlan& plan, const std::string& comment) {
  return stage_lists(dag, comment, [&](const OperationType& type, int i) {
    const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
    return fmt::format("({}, {})", python_string(announced_name(type.instruction)),
                       std::llround(option.frequency.value()));
  });
}

bool announces_labels(const ComputationDag& dag) {
  const auto types = dag.types();
  return std::any_of(types.begin(), types.end(),
                     [](const OperationType& type) { return is_announced(type) && !type.labels.empty(); });
}

std::string kareus_schedules(const ComputationDag& dag, const ClockPlan& plan, const std::string& comment) {
  return stage_lists(dag, comment, [&](const OperationType& type, int i) {
    const OptionLabels& labels = type.labels.of(plan[static_cast<std::size_t>(i)]);
    std::string entry = "(" + python_string(announced_name(type.instruction), '\'');
    for (const Label& label : labels) entry += ", " + python_string(label.value, '\'');
    return entry + (labels.empty() ? ",)" : ")");
  });
}

std::string kareus_file_name(std::size_t number) { return fmt::format("scheds_pipeline_{:05d}.py", number); }

std::string zeus_file_name(std::size_t number) { return fmt::format("freqs_pipeline_{:05d}.py", number); }

std::size_t write_zeus_files(const std::filesystem::path& folder, const ComputationDag& dag, const Frontier& frontier) {
  const bool labelled = announces_labels(dag);
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const std::string comment = fmt::format("iteration time {:.6f} s\nenergy {:.3f} J per iteration, blocking included",
                                            frontier.time(i).value(), frontier.energy(i).value());
    const std::size_t number = frontier.size() - 1 - i;
    const ClockPlan plan = frontier.plan(i);
    write_text_file(folder / zeus_file_name(number), zeus_frequencies(dag, plan, comment));
    if (labelled) write_text_file(folder / kareus_file_name(number), kareus_schedules(dag, plan, comment));
  }
  return frontier.size();
}

}  // namespace flyball
