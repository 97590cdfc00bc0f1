// Writes the text part by part, since a document of all stacks would take many times the memory.
#include "report/footprint_speedscope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/compensated_sum.h"
#include "base/json_text.h"
#include "report/footprint_stack.h"

namespace flyball {
namespace {

using RowWeight = double (*)(const FootprintRow& row);

// Numbers the frames as they come.
class SpeedscopeFrames {
 public:
  [[nodiscard]] std::string stack(const FootprintRow& row) {
    std::string text;
    for (const std::string_view part : stack_of(row)) {
      const auto [at, added] = numbers_.try_emplace(part, numbers_.size());
      if (added) names_ += fmt::format("{}{{\"name\":{}}}", names_.empty() ? "" : ",\n", dump_json(std::string(part)));
      text += fmt::format("{}{}", text.empty() ? "" : ",", at->second);
    }
    return text;
  }
  [[nodiscard]] const std::string& names() const { return names_; }

 private:
  std::unordered_map<std::string_view, std::size_t> numbers_;  // views of the rows
  std::string names_;
};

std::string sampled_profile(const Footprint& footprint, std::string_view name, std::string_view unit, RowWeight weight,
                            SpeedscopeFrames& frames) {
  std::string samples;
  std::string weights;
  CompensatedSum sum;
  for (const FootprintRow& row : footprint.rows) {
    const double value = weight(row);
    if (!(value > 0.0)) continue;
    const std::string_view comma = samples.empty() ? "" : ",";
    samples += fmt::format("{}[{}]", comma, frames.stack(row));
    weights += fmt::format("{}{}", comma, value);
    sum.add(value);
  }
  return fmt::format(
      "{{\"type\":\"sampled\",\"name\":\"{}\",\"unit\":\"{}\",\"startValue\":0,\"endValue\":{},\n\"samples\":[{}],\n"
      "\"weights\":[{}]}}",
      name, unit, sum.value(), samples, weights);
}

}  // namespace

std::string footprint_speedscope(const Footprint& footprint, std::string_view title) {
  SpeedscopeFrames frames;
  const std::string energy = sampled_profile(
      footprint, "energy in joules", "none", [](const FootprintRow& row) { return row.energy.value(); }, frames);
  const std::string busy = sampled_profile(
      footprint, "busy time", "seconds", [](const FootprintRow& row) { return row.busy.value(); }, frames);
  return fmt::format(
      "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"flyball\",\"name\":{},\n"
      "\"activeProfileIndex\":0,\"shared\":{{\"frames\":[{}]}},\n\"profiles\":[{},\n{}]}}\n",
      dump_json(std::string(title)), frames.names(), energy, busy);
}

}  // namespace flyball
