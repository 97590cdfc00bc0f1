// The text of each stage's answer is made once, from the plan's clocks; the identity is a hash of all of them.
#include "server/given_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fingerprint.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

void refuse_power_limit(const OptionLabels& labels, const std::string& source) {
  for (const Label& label : labels) {
    if (label.name != kPowerLimitLabel) continue;
    throw InputError({source}, fmt::format("the plan sets a power limit of {} W", label.value),
                     "plan with clocks: ranks set a clock for each computation, never a power limit");
  }
}

}  // namespace

GivenPlan given_plan_of(const PlanFile& file, const std::string& source) {
  if (file.frontier.empty()) {
    throw InputError({source}, "the plan has no point", "make it anew: flyball plan PROFILE --out FOLDER");
  }
  const ClockPlan clocks = file.frontier.plan(file.header.selected.value_or(0));
  GivenPlan given;
  Fingerprint identity;
  for (int stage = 0; stage < file.dag.stages(); ++stage) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const int i : file.dag.stage_order(stage)) {
      const OperationType& type = file.dag.type_of(i);
      if (!type.occupies_stage || is_constant_operation(type.instruction)) continue;
      const std::uint16_t chosen = clocks[static_cast<std::size_t>(i)];
      refuse_power_limit(type.labels.of(chosen), source);
      const ClockOption& option = type.options[chosen];
      list.push_back(
          nlohmann::ordered_json::array({announced_name(type.instruction), std::lround(option.frequency.value())}));
    }
    const std::string text = list.dump();
    identity.add(text);
    given.tails.push_back(fmt::format(R"("frequencies":{}}})", text));
  }
  given.identity = identity.value();
  return given;
}

}  // namespace flyball
