// Rows are merged by sorting on (name, device, phase). Two footprints are compared by walking their names in order;
// deviations over runs count a row that a run lacks as zero.
#include "account/footprint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace flyball {
namespace {

using RowKey = std::tuple<std::string_view, std::string_view, Phase, int>;

RowKey key_of(const FootprintRow& row) { return {row.name, row.device, row.phase, row.rank}; }

// The values of both footprints, by name.
struct Pairing {
  std::vector<std::string> names;
  std::vector<double> a, b;              // J
  std::vector<double> power_a, power_b;  // W, of the names that both have
};

Pairing pair_up(const Footprint& a, const Footprint& b) {
  const std::vector<NamedEnergy> left = by_name(a);
  const std::vector<NamedEnergy> right = by_name(b);
  Pairing pairing;
  std::size_t i = 0;
  std::size_t k = 0;
  while (i < left.size() || k < right.size()) {
    const bool has_left = i < left.size() && (k == right.size() || left[i].name <= right[k].name);
    const bool has_right = k < right.size() && (i == left.size() || right[k].name <= left[i].name);
    pairing.names.push_back(has_left ? left[i].name : right[k].name);
    pairing.a.push_back(has_left ? left[i].energy.value() : 0.0);
    pairing.b.push_back(has_right ? right[k].energy.value() : 0.0);
    if (has_left && has_right && left[i].powered > Seconds(0) && right[k].powered > Seconds(0)) {
      pairing.power_a.push_back((left[i].energy / left[i].powered).value());
      pairing.power_b.push_back((right[k].energy / right[k].powered).value());
    }
    i += has_left ? 1 : 0;
    k += has_right ? 1 : 0;
  }
  return pairing;
}

double mean_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += b[i] - a[i];
  return a.empty() ? 0.0 : sum / static_cast<double>(a.size());
}

template <class Value>
Value sum_over(const std::vector<FootprintDevice>& devices, Value FootprintDevice::*field) {
  Value sum{};
  for (const FootprintDevice& device : devices) sum += device.*field;
  return sum;
}

void add_communication(CommunicationTime& sum, const CommunicationTime& time) {
  sum.beside += time.beside;
  sum.alone += time.alone;
  sum.energy += time.energy;
}

void add_device(FootprintDevice& sum, const FootprintDevice& device) {
  sum.measured += device.measured;
  sum.attributed += device.attributed;
  sum.idle += device.idle;
  sum.outside += device.outside;
  sum.other_processes += device.other_processes;
  sum.system += device.system;
  sum.monitor += device.monitor;
  sum.powered += device.powered;
  sum.busy += device.busy;
  sum.idle_time += device.idle_time;
  sum.outside_time += device.outside_time;
  sum.uncovered += device.uncovered;
  sum.unmeasured += device.unmeasured;
  add_communication(sum.communication, device.communication);
  sum.events += device.events;
  sum.static_energy += device.static_energy;
}

FootprintDevice divided(FootprintDevice device, double runs) {
  for (Joules FootprintDevice::*field :
       {&FootprintDevice::measured, &FootprintDevice::attributed, &FootprintDevice::idle, &FootprintDevice::outside,
        &FootprintDevice::other_processes, &FootprintDevice::system, &FootprintDevice::monitor,
        &FootprintDevice::static_energy}) {
    device.*field = device.*field / runs;
  }
  for (Seconds FootprintDevice::*field :
       {&FootprintDevice::powered, &FootprintDevice::busy, &FootprintDevice::idle_time, &FootprintDevice::outside_time,
        &FootprintDevice::uncovered, &FootprintDevice::unmeasured}) {
    device.*field = device.*field / runs;
  }
  if (device.static_power) device.static_power = *device.static_power / runs;
  const CommunicationTime& communication = device.communication;
  device.communication = {communication.beside / runs, communication.alone / runs, communication.energy / runs};
  device.events = static_cast<std::uint64_t>(std::llround(static_cast<double>(device.events) / runs));
  return device;
}

// Standard deviation over `runs` runs, with 0 for each run that has no value.
double deviation(const std::vector<double>& values, double runs) {
  if (runs < 2.0) return 0.0;
  double sum = 0.0;
  for (const double value : values) sum += value;
  const double mean = sum / runs;
  double squares = (runs - static_cast<double>(values.size())) * mean * mean;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (runs - 1.0));
}

// Takes out the groups of which rows have been added up with others; where a row is the whole group, its error is the
// group's.
void settle_groups(Footprint& footprint, const std::set<std::uint32_t>& broken) {
  std::map<std::uint32_t, std::size_t> rows;
  for (const FootprintRow& row : footprint.rows) {
    if (row.group != 0) ++rows[row.group];
  }
  std::vector<FootprintGroup> kept;
  for (const FootprintGroup& group : footprint.groups) {
    if (broken.count(group.number) == 0 && rows[group.number] > 1) kept.push_back(group);
  }
  for (FootprintRow& row : footprint.rows) {
    if (row.group == 0) continue;
    const auto is_own = [&row](const FootprintGroup& group) { return group.number == row.group; };
    if (std::any_of(kept.begin(), kept.end(), is_own)) continue;
    const auto group = std::find_if(footprint.groups.begin(), footprint.groups.end(), is_own);
    if (group != footprint.groups.end() && broken.count(row.group) == 0) row.error = group->error;
    row.group = 0;
  }
  footprint.groups = std::move(kept);
}

}  // namespace

Joules Footprint::measured() const { return sum_over(devices, &FootprintDevice::measured); }
Joules Footprint::attributed() const { return sum_over(devices, &FootprintDevice::attributed); }
Joules Footprint::idle() const { return sum_over(devices, &FootprintDevice::idle); }
Joules Footprint::outside() const { return sum_over(devices, &FootprintDevice::outside); }
Joules Footprint::elsewhere() const {
  return sum_over(devices, &FootprintDevice::other_processes) + sum_over(devices, &FootprintDevice::system) +
         sum_over(devices, &FootprintDevice::monitor);
}

bool on_processor(std::string_view device) {
  const std::size_t slash = device.rfind('/');
  const std::string_view own = device.substr(slash == std::string_view::npos ? 0 : slash + 1);
  return own.starts_with("CPU") || own.starts_with("DRAM");
}

CommunicationTime Footprint::communication() const {
  CommunicationTime accelerators;
  CommunicationTime processors;
  for (const FootprintDevice& device : devices) {
    add_communication(on_processor(device.device) ? processors : accelerators, device.communication);
  }
  return accelerators.alone + accelerators.beside > Seconds(0) ? accelerators : processors;
}

Trust Footprint::trust() const {
  const auto is_known = [](Joules error, Joules energy) { return error <= Trust::kWell * energy; };
  std::set<std::uint32_t> known_groups;
  for (const FootprintGroup& group : groups) {
    if (is_known(group.error, group.energy)) known_groups.insert(group.number);
  }
  Trust trust;
  for (const FootprintRow& row : rows) {
    if (row.energy <= Joules(0)) continue;
    if (!std::isnan(row.error.value())) trust.judged = true;
    if (is_known(row.error, row.energy)) {
      ++trust.known;
      trust.known_energy += row.energy;
    } else if (row.group != 0 && known_groups.count(row.group) > 0) {
      ++trust.grouped;
      trust.grouped_energy += row.energy;
    } else {
      ++trust.rest;
      trust.rest_energy += row.energy;
    }
  }
  return trust;
}

Footprint make_footprint(const Attribution& attribution, const OperationTable& operations, const DeviceTable& devices) {
  Footprint footprint;
  for (const DeviceShare& share : attribution.devices) {
    FootprintDevice device;
    device.device = devices.name(share.device);
    device.measured = share.measured;
    device.attributed = share.attributed;
    device.idle = share.idle;
    device.outside = share.outside;
    device.powered = share.powered;
    device.busy = share.busy;
    device.idle_time = share.idle_time;
    device.outside_time = share.outside_time;
    device.uncovered = share.uncovered;
    device.unmeasured = share.unmeasured;
    device.events = share.events;
    device.method = share.method;
    device.quiet = share.quiet;
    footprint.devices.push_back(std::move(device));
  }
  std::sort(footprint.devices.begin(), footprint.devices.end(),
            [](const auto& a, const auto& b) { return a.device < b.device; });
  for (const OperationShare& share : attribution.operations) {
    footprint.rows.push_back({.name = operations.name(share.operation),
                              .device = devices.name(share.device),
                              .phase = operations.phase(share.operation),
                              .energy = share.energy,
                              .busy = share.busy,
                              .powered = share.powered,
                              .events = share.events,
                              .energy_deviation = {},
                              .power_deviation = {},
                              .error = share.error,
                              .group = share.group,
                              .rank = operations.rank(share.operation),
                              .shared = share.shared});
  }
  for (const GroupShare& share : attribution.groups) {
    footprint.groups.push_back({share.group, devices.name(share.device), share.energy, share.error});
  }
  merge_rows(footprint);
  return footprint;
}

FootprintRow empty_sum() {
  FootprintRow sum;
  sum.error = sum.static_energy = Joules(0);
  return sum;
}

void add_to(FootprintRow& sum, const FootprintRow& row) {
  sum.energy += row.energy;
  sum.busy += row.busy;
  sum.powered += row.powered;
  sum.events += row.events;
  sum.error += row.error;
  sum.shared += row.shared;
  sum.static_energy += row.static_energy;
}

void merge_rows(Footprint& footprint) {
  std::vector<FootprintRow>& rows = footprint.rows;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  std::size_t kept = 0;
  std::set<std::uint32_t> broken;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept > 0 && key_of(rows[kept - 1]) == key_of(rows[i])) {
      FootprintRow& sum = rows[kept - 1];
      add_to(sum, rows[i]);
      if (sum.group != rows[i].group) {
        broken.insert({sum.group, rows[i].group});
        sum.group = std::max(sum.group, rows[i].group);  // one that is broken
      }
      if (footprint.runs > 1) {
        sum.energy_deviation = Joules(std::numeric_limits<double>::quiet_NaN());
        sum.power_deviation = Watts(std::numeric_limits<double>::quiet_NaN());
      }
    } else {
      if (kept != i) rows[kept] = std::move(rows[i]);
      ++kept;
    }
  }
  rows.resize(kept);
  settle_groups(footprint, broken);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.energy > b.energy; });
}

Footprint summarised(const Footprint& footprint, const SelfSimilar& similar) {
  Footprint result = footprint;
  for (FootprintRow& row : result.rows) row.name = similar.summarised(row.name);
  merge_rows(result);
  return result;
}

std::vector<NamedEnergy> by_name(const Footprint& footprint) {
  std::map<std::string_view, NamedEnergy> sums;
  for (const FootprintRow& row : footprint.rows) {
    NamedEnergy& sum = sums[row.name];
    sum.energy += row.energy;
    sum.powered += row.powered;
  }
  std::vector<NamedEnergy> result;
  result.reserve(sums.size());
  for (const auto& [name, sum] : sums) result.push_back({std::string(name), sum.energy, sum.powered});
  return result;
}

Footprint mean_of_runs(std::span<const Footprint> runs) {
  Footprint result;
  if (runs.empty()) return result;
  if (runs.size() == 1) return runs.front();
  const auto count = static_cast<double>(runs.size());
  std::map<std::string_view, FootprintDevice> devices;
  struct Series {
    FootprintRow sum = empty_sum();
    std::vector<double> energies, powers;
  };
  std::map<RowKey, Series> series;
  result.runs = 0;
  std::vector<StepEnergy> steps;
  for (const Footprint& run : runs) {
    steps.push_back(run.steps);
    result.runs += run.runs;
    result.profiled += run.profiled / count;
    for (const FootprintDevice& device : run.devices) {
      const auto [sum, is_first] = devices.try_emplace(device.device);
      add_device(sum->second, device);
      if (is_first) {
        sum->second.method = device.method;
        sum->second.static_power = device.static_power;
      } else if (sum->second.static_power && device.static_power) {
        *sum->second.static_power += *device.static_power;
      } else {
        sum->second.static_power.reset();
      }
      if (sum->second.method != device.method) sum->second.method.reset();
    }
    for (const FootprintRow& row : run.rows) {
      Series& of_row = series[key_of(row)];
      add_to(of_row.sum, row);
      of_row.energies.push_back(row.energy.value());
      if (row.powered > Seconds(0)) of_row.powers.push_back(row.mean_power().value());
    }
  }
  result.steps = mean_of_steps(steps);
  for (const auto& [name, sum] : devices) {
    result.devices.push_back(divided(sum, count));
    result.devices.back().device = name;
  }
  for (const auto& [key, of_row] : series) {
    const auto& [name, device, phase, rank] = key;
    const FootprintRow& sum = of_row.sum;
    result.rows.push_back(
        {.name = std::string(name),
         .device = std::string(device),
         .phase = phase,
         .energy = sum.energy / count,
         .busy = sum.busy / count,
         .powered = sum.powered / count,
         .events = static_cast<std::uint64_t>(std::llround(static_cast<double>(sum.events) / count)),
         .energy_deviation = Joules(deviation(of_row.energies, count)),
         .power_deviation = Watts(deviation(of_row.powers, static_cast<double>(of_row.powers.size()))),
         .error = sum.error / count,
         .group = 0,
         .rank = rank,
         .shared = sum.shared / count,
         .static_energy = sum.static_energy / count});
  }
  merge_rows(result);
  return result;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const std::size_t count = std::min(a.size(), b.size());
  if (count < 2) return std::numeric_limits<double>::quiet_NaN();
  double mean_a = 0.0;
  double mean_b = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    mean_a += a[i];
    mean_b += b[i];
  }
  mean_a /= static_cast<double>(count);
  mean_b /= static_cast<double>(count);
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

FootprintComparison compare(const Footprint& a, const Footprint& b) {
  const Pairing pairing = pair_up(a, b);
  FootprintComparison comparison;
  comparison.names = pairing.names.size();
  comparison.energy_correlation = pearson(pairing.a, pairing.b);
  comparison.power_correlation = pearson(pairing.power_a, pairing.power_b);
  comparison.mean_energy_difference = Joules(mean_difference(pairing.a, pairing.b));
  comparison.mean_power_difference = Watts(mean_difference(pairing.power_a, pairing.power_b));
  for (std::size_t i = 0; i < pairing.names.size(); ++i) {
    comparison.moves.push_back({pairing.names[i], Joules(pairing.a[i]), Joules(pairing.b[i])});
  }
  std::stable_sort(comparison.moves.begin(), comparison.moves.end(), [](const auto& x, const auto& y) {
    return std::abs(x.change().value()) > std::abs(y.change().value());
  });
  return comparison;
}

double similarity(const Footprint& a, const Footprint& b) {
  const Pairing pairing = pair_up(a, b);
  return pearson(pairing.a, pairing.b);
}

RunQuality quality_of_runs(std::span<const Footprint> runs) {
  RunQuality quality;
  for (const Footprint& run : runs) {
    std::vector<double>& row = quality.stability.emplace_back();
    for (const Footprint& other : runs) row.push_back(similarity(run, other));
  }
  const Footprint all = mean_of_runs(runs);
  for (std::size_t k = 1; k <= runs.size(); ++k) {
    quality.widening.push_back(similarity(mean_of_runs(runs.first(k)), all));
  }
  return quality;
}

}  // namespace flyball
