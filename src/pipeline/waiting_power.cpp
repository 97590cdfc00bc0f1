// The power of waiting, by clock: measured rows become powers that rise with the clock, and what a stated power leaves
// out is told.
#include "pipeline/waiting_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "pipeline/instruction.h"

namespace flyball {
namespace {

std::vector<double> numbers_of(const std::vector<Watts>& powers) {
  std::vector<double> numbers;
  for (const Watts power : powers) numbers.push_back(power.value());
  return numbers;
}

}  // namespace

Watts power_at(const std::vector<PowerAtClock>& measured, Megahertz clock) {
  const auto above =
      std::find_if(measured.begin(), measured.end(), [&](const auto& one) { return one.clock >= clock; });
  if (above == measured.end()) return measured.back().power;
  if (above == measured.begin() || above->clock == clock) return above->power;
  const PowerAtClock& below = *(above - 1);
  return below.power + (clock - below.clock) / (above->clock - below.clock) * (above->power - below.power);
}

void check_blocking(const PipelineSpec& spec, int stages) {
  if (spec.blocking_power.size() <= 1 || spec.blocking_power.size() == at(stages)) return;
  throw UsageError(fmt::format("{} blocking powers for {} stages; give one, or one per stage (--blocking-power)",
                               spec.blocking_power.size(), stages));
}

void add_waiting_above(ComputationDag& dag, const PipelineSpec& spec, const Profile& profile) {
  if (!spec.blocking_power.empty()) return;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<PowerAtClock> measured = measured_waiting(profile, stage);
    if (measured.empty() || measured.front().power == measured.back().power) continue;
    std::vector<std::size_t> computations;
    std::size_t choices = 0;
    for (std::size_t t = 0; t < dag.types().size(); ++t) {
      const OperationType& type = dag.types()[t];
      if (type.stage != stage || !type.occupies_stage) continue;
      if (is_constant_operation(type.instruction)) {
        // This is what constant_type() makes if no energy is stated.
        const ClockOption& option = type.options.front();
        if (option.energy == measured.front().power * option.time) dag.set_waits(t);
        continue;
      }
      computations.push_back(t);
      if (type.options.size() > 1) ++choices;
    }
    for (const std::size_t t : computations) {
      const std::vector<ClockOption>& options = dag.types()[t].options;
      if (options.size() < 2 && choices > 0) continue;
      std::vector<Watts> powers;
      for (const ClockOption& option : options) {
        powers.push_back(power_at(measured, option.frequency) - measured.front().power);
      }
      dag.set_waiting_above(t, std::move(powers));
    }
  }
}

std::vector<PowerAtClock> measured_waiting(const Profile& profile, int stage) {
  const OperationProfile* waiting = profile.find(stage, kWaitingName);
  if (waiting == nullptr) return {};
  std::vector<PowerAtClock> powers;
  // What ran before may have had labels, but a stage waits at a clock: the mean of the rows of one clock counts.
  const std::vector<ClockOption>& rows = waiting->options;
  for (std::size_t k = 0, end = 0; k < rows.size(); k = end) {
    Watts sum;
    for (end = k; end < rows.size() && rows[end].frequency == rows[k].frequency; ++end) {
      sum += rows[end].energy / rows[end].time;
    }
    powers.push_back({rows[k].frequency, sum / static_cast<double>(end - k)});
  }
  std::sort(powers.begin(), powers.end(), [](const auto& a, const auto& b) { return a.clock < b.clock; });
  if (powers.front().clock == Megahertz(0)) {
    Watts sum;
    for (const PowerAtClock& one : powers) sum += one.power;
    return {{Megahertz(0), sum / static_cast<double>(powers.size())}};
  }
  struct Pool {
    Watts mean;
    std::size_t count;
  };
  std::vector<Pool> pools;
  for (const PowerAtClock& one : powers) {
    pools.push_back({one.power, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool high = pools[pools.size() - 2];
      const auto low_count = static_cast<double>(pools.back().count);
      const auto high_count = static_cast<double>(high.count);
      const Watts mean = (low_count * pools.back().mean + high_count * high.mean) / (low_count + high_count);
      const std::size_t count = pools.back().count + high.count;
      pools.pop_back();
      pools.back() = {mean, count};
    }
  }
  std::size_t k = 0;
  for (const Pool& pool : pools) {
    for (const std::size_t end = k + pool.count; k < end; ++k) powers[k].power = pool.mean;
  }
  return powers;
}

Watts PipelineSpec::blocking(int stage, const Profile& profile) const {
  if (blocking_power.size() == 1) return blocking_power[0];
  if (!blocking_power.empty()) return blocking_power.at(at(stage));
  const std::vector<PowerAtClock> measured = measured_waiting(profile, stage);
  return measured.empty() ? kDefaultBlockingPower : measured.front().power;
}

std::vector<Watts> PipelineSpec::blocking_powers(int stages_of_dag, const Profile& profile) const {
  check_blocking(*this, stages_of_dag);
  std::vector<Watts> powers;
  for (int stage = 0; stage < stages_of_dag; ++stage) powers.push_back(blocking(stage, profile));
  return powers;
}

std::vector<std::string> blocking_warnings(const PipelineSpec& spec, const Profile& profile,
                                           const ComputationDag& dag) {
  constexpr double kFarOff = 0.05;
  std::vector<std::string> warnings;
  std::vector<std::string> off;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<PowerAtClock> measured = measured_waiting(profile, stage);
    if (measured.empty()) continue;
    const Watts assumed = spec.blocking(stage, profile);
    const Watts least = measured.front().power;
    const Watts most = measured.back().power;
    if (assumed >= (1.0 - kFarOff) * least && assumed <= (1.0 + kFarOff) * most) continue;
    off.push_back(least == most ? fmt::format("stage {} {:.4g} W", stage, least.value())
                                : fmt::format("stage {} {:.4g} to {:.4g} W", stage, least.value(), most.value()));
  }
  if (!off.empty()) {
    warnings.push_back(fmt::format(
        "the stated blocking power is not what was measured: {}, stated {:.4g} W; energies and savings follow what is "
        "stated, leave it out to take what was measured",
        fmt::join(off, ", "), fmt::join(numbers_of(spec.blocking_power), ", ")));
  }
  const OperationType* least = nullptr;
  const ClockOption* least_option = nullptr;
  double least_share = 1.0 - 1e-9;  // operations whose energy is not stated draw just the blocking power
  for (const OperationType& type : dag.types()) {
    for (const ClockOption& option : type.options) {
      const double share = option.energy / (spec.blocking(type.stage, profile) * option.time);
      // A transfer without energy of its own was not measured.
      if (!(share < least_share) || !(option.energy > Joules(0))) continue;
      least_share = share;
      least = &type;
      least_option = &option;
    }
  }
  if (least != nullptr) {
    warnings.push_back(fmt::format(
        "a GPU that waits is to draw {:.4g} W, more than stage {} {} at {:.0f} MHz does ({:.4g} W): plans then work "
        "slowly rather than wait; check the blocking power",
        spec.blocking(least->stage, profile).value(), least->stage, least->instruction, least_option->frequency.value(),
        (least_option->energy / least_option->time).value()));
  }
  return warnings;
}

}  // namespace flyball
