// Counters of two looks are compared device by device; what went backwards has begun anew.
#include "client/energy_begin.h"

#include <algorithm>
#include <optional>

namespace flyball {
namespace {

void carry_over_restart(NodeStatus& begin, const NodeStatus& before, const NodeStatus& now) {
  for (const CpuStatus& cpu : now.cpus) {
    const auto same = [&](const CpuStatus& other) { return other.index == cpu.index; };
    const auto last = std::find_if(before.cpus.begin(), before.cpus.end(), same);
    const auto first = std::find_if(begin.cpus.begin(), begin.cpus.end(), same);
    if (last == before.cpus.end() || first == begin.cpus.end()) continue;
    const auto carry = [](const std::optional<Joules>& after, const std::optional<Joules>& old,
                          std::optional<Joules>& from) {
      if (after && old && from && *after < *old) from = *from - *old;
    };
    carry(cpu.package_energy, last->package_energy, first->package_energy);
    carry(cpu.dram_energy, last->dram_energy, first->dram_energy);
  }
}

void count_newcomers(NodeStatus& begin, const NodeStatus& now) {
  for (const GpuStatus& gpu : now.gpus) {
    const auto counts = [&](const GpuStatus& first) { return first.uuid == gpu.uuid && first.energy; };
    if (gpu.energy && std::none_of(begin.gpus.begin(), begin.gpus.end(), counts)) begin.gpus.push_back(gpu);
  }
}

}  // namespace

void move_energy_begin(NodeStatus& begin, const NodeStatus& before, const NodeStatus& now) {
  carry_over_restart(begin, before, now);
  count_newcomers(begin, now);
}

}  // namespace flyball
