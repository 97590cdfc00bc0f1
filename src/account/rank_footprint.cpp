// Rows are grouped by a sorted map; a device belongs to a rank if all of its rows do.
#include "account/rank_footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "account/work_class.h"

namespace flyball {
namespace {

constexpr int kShared = kNoRank - 1;

std::string kind_of(std::string_view device) { return std::string(device.substr(0, device.find(':'))); }

struct Series {
  FootprintRow sum = empty_sum();
  std::map<int, double> energies;  // J, by rank
};

double deviation_over(const std::map<int, double>& energies, std::size_t ranks) {
  if (ranks < 2) return 0.0;
  const auto count = static_cast<double>(ranks);
  double sum = 0.0;
  for (const auto& [rank, energy] : energies) sum += energy;
  const double mean = sum / count;
  double squares = (count - static_cast<double>(energies.size())) * mean * mean;
  for (const auto& [rank, energy] : energies) squares += (energy - mean) * (energy - mean);
  return std::sqrt(squares / (count - 1.0));
}

// A rank's times, apart by where its operations ran until it is known whether the job has accelerators.
struct RankTimes {
  Seconds computing[2];  // on processors; on accelerators
  Seconds communicating[2];
};

void add_row(RankTimes& times, const FootprintRow& row) {
  const std::size_t at = on_processor(row.device) ? 0 : 1;
  const bool communicates = work_class(row.name, row.phase) == WorkClass::kCommunicate;
  (communicates ? times.communicating : times.computing)[at] += row.busy;
}

}  // namespace

Footprint sum_of_ranks(std::span<const Footprint> nodes) {
  Footprint result;
  std::map<std::tuple<std::string, Phase, std::string>, Series> series;
  std::map<int, RankShare> ranks;
  std::map<int, RankTimes> times;
  std::vector<StepEnergy> steps;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Footprint& node = nodes[n];
    const std::string prefix = nodes.size() > 1 ? fmt::format("n{}/", n) : std::string();
    result.profiled = std::max(result.profiled, node.profiled);
    steps.push_back(node.steps);
    for (StepEnergy::Device& device : steps.back().devices) device.device = prefix + device.device;
    std::map<std::string_view, int> owners;  // of devices
    for (const FootprintRow& row : node.rows) {
      const auto [owner, fresh] = owners.emplace(row.device, row.rank);
      if (!fresh && owner->second != row.rank) owner->second = kShared;
      Series& of_row = series[{row.name, row.phase, kind_of(row.device)}];
      add_to(of_row.sum, row);
      of_row.energies[row.rank] += row.energy.value();
      ranks[row.rank].energy += row.energy;
      add_row(times[row.rank], row);
    }
    for (FootprintDevice device : node.devices) {
      const auto owner = owners.find(device.device);
      if (owner != owners.end() && owner->second != kShared) {
        RankShare& share = ranks[owner->second];
        share.idle += device.idle;
        if (!on_processor(device.device)) share.exposed += device.communication.alone;
        share.devices.push_back(prefix + device.device);
      }
      device.device = prefix + device.device;
      result.devices.push_back(std::move(device));
    }
  }
  const bool accelerated = std::any_of(times.begin(), times.end(), [](const auto& one) {
    return one.second.computing[1] + one.second.communicating[1] > Seconds(0);
  });
  for (auto& [rank, share] : ranks) {
    share.rank = rank;
    share.processor = times[rank].computing[0] + times[rank].communicating[0];
    share.computing = times[rank].computing[accelerated ? 1 : 0];
    share.communicating = times[rank].communicating[accelerated ? 1 : 0];
    result.ranks.push_back(std::move(share));
  }
  for (auto& [key, of_row] : series) {
    FootprintRow& row = of_row.sum;
    std::tie(row.name, row.phase, row.device) = key;
    row.energy_deviation = Joules(deviation_over(of_row.energies, result.ranks.size()));
    result.rows.push_back(std::move(row));
  }
  result.steps = sum_of_steps(steps);
  merge_rows(result);
  return result;
}

std::size_t slowest_rank(std::span<const RankShare> ranks) {
  const auto slowest = std::max_element(
      ranks.begin(), ranks.end(), [](const RankShare& a, const RankShare& b) { return a.computing < b.computing; });
  return static_cast<std::size_t>(slowest - ranks.begin());
}

}  // namespace flyball
