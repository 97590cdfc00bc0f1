// Writes plans as the Python expressions that Zeus and Kareus read. The reader knows the literals of such an expression
// and nothing else of Python.
#include "plan/zeus_frequencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "pipeline/schedule.h"

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

class LiteralReader {
 public:
  LiteralReader(const std::string& source, std::string_view text) : source_(source), text_(text) {}

  // The next character that is neither white nor in a comment; 0 at the end.
  char peek() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else {
        return c;
      }
    }
    return 0;
  }
  void expect(char wanted) {
    if (peek() != wanted) fail(fmt::format("'{}' is missing", wanted));
    ++at_;
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Reads items until `close`, with commas between them and perhaps after the last.
  template <class Item>
  void list(char open, char close, const Item& item) {
    expect(open);
    while (!take(close)) {
      item();
      if (!take(',') && peek() != close) fail(fmt::format("',' or '{}' is missing", close));
    }
  }
  std::string name() {
    const char quote = peek();
    if (quote != '"' && quote != '\'') fail("an instruction in quotes is missing");
    const std::size_t end = text_.find(quote, at_ + 1);
    const std::string_view name = text_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1);
    if (end == std::string_view::npos || name.find_first_of("\\\n") != std::string_view::npos) {
      fail("a string has no end in its line, or a backslash");
    }
    at_ = end + 1;
    return std::string(name);
  }
  int clock() {
    (void)peek();
    const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    const auto mhz = parse_integer(text_.substr(at_, end - at_));
    constexpr long kMost = 1'000'000;
    if (!mhz || *mhz > kMost) fail(fmt::format("a clock in whole MHz is missing, 0 to {}", kMost));
    at_ = end;
    return static_cast<int>(*mhz);
  }
  [[noreturn]] void fail(const std::string& problem) const {
    const std::string_view before = text_.substr(0, at_);
    const std::size_t begin = before.rfind('\n') + 1;  // 0 in the first line
    const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    throw InputError({source_, line, at_ - begin + 1}, problem,
                     "a plan is a list of stages, each a list of ('forward', 1410)");
  }

 private:
  const std::string& source_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::vector<AnnouncedClock>> read_zeus_frequencies(const std::string& source, std::string_view text) {
  std::vector<std::vector<AnnouncedClock>> stages;
  LiteralReader reader(source, text);
  long count = 0;
  reader.list('[', ']', [&] {
    std::vector<AnnouncedClock>& stage = stages.emplace_back();
    reader.list('[', ']', [&] {
      if (++count > kMostOperations) reader.fail(fmt::format("there are more than {} computations", kMostOperations));
      const char open = reader.peek() == '[' ? '[' : '(';
      reader.expect(open);
      AnnouncedClock& one = stage.emplace_back();
      one.instruction = reader.name();
      reader.expect(',');
      one.clock_mhz = reader.clock();
      (void)reader.take(',');
      reader.expect(open == '[' ? ']' : ')');
    });
  });
  if (reader.peek() != 0) reader.fail("something follows the list");
  return stages;
}

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
