// Texts are appended to one string that is reserved for the usual size; instruction names are quoted once each.
#include "server/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <nlohmann/json.hpp>

namespace flyball {
namespace {

constexpr std::string_view kFrequencies = R"("frequencies":)";
constexpr std::size_t kUsualEntry = 24;  // bytes

// Names as JSON. A job has a handful of them.
class Quoted {
 public:
  const std::string& operator()(const std::string& name) {
    for (const auto& [known, quoted] : names_) {
      if (known == name) return quoted;
    }
    return names_.emplace_back(name, nlohmann::json(name).dump()).second;
  }

 private:
  std::vector<std::pair<std::string, std::string>> names_;
};

// Appends `begin`, a list of what `entry` appends for each item, and `end`.
template <class Items, class Entry>
std::string list_of(std::string_view begin, const Items& items, const Entry& entry, std::string_view end) {
  std::string text;
  text.reserve(begin.size() + items.size() * kUsualEntry + 2 + end.size());
  text += begin;
  text += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) text += ',';
    entry(text, item);
  }
  text += ']';
  return text += end;
}

void append_number(std::string& text, int number) {
  const fmt::format_int digits(number);
  text.append(digits.data(), digits.size());
}

}  // namespace

std::string computations_text(const std::vector<ScheduledComputation>& computations) {
  Quoted quoted;
  const auto entry = [&](std::string& text, const ScheduledComputation& one) {
    text += '[';
    text += quoted(one.instruction);
    for (const int number : {one.microbatch, one.chunk, one.clock_mhz}) {
      text += ',';
      append_number(text, number);
    }
    if (one.transfers != std::array<int, 4>{}) text += fmt::format(",{}", fmt::join(one.transfers, ","));
    text += ']';
  };
  return list_of({}, computations, entry, {});
}

std::string zeus_tail(const std::vector<ScheduledComputation>& computations) {
  Quoted quoted;
  const auto entry = [&](std::string& text, const ScheduledComputation& one) {
    text += '[';
    text += quoted(one.instruction);
    text += ',';
    append_number(text, one.clock_mhz);
    text += ']';
  };
  return list_of(kFrequencies, computations, entry, "}");
}

std::string zeus_tail(const InstructionStream& stream, int clock) {
  const std::string end = fmt::format("\",{}]", clock);
  const auto entry = [&](std::string& text, const Instruction& one) {
    text += "[\"";
    text += instruction_name(one.kind);
    text += end;
  };
  return list_of(kFrequencies, stream, entry, "}");
}

}  // namespace flyball
