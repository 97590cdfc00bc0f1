// A pass over all GPUs of all nodes for each question; each second at most, and once for each reader of a job.
#include "server/leased_gpus.h"

#include <iterator>
#include <utility>

#include "base/wall_clock.h"

namespace flyball {

void MeanClocks::Sum::add(const std::optional<Megahertz>& clock) {
  if (!clock) return;
  sum += clock->value();
  ++count;
}

void MeanClocks::add(const WatchedGpu& gpu) {
  held_.add(gpu.clock);
  asked_.add(gpu.asked_clock ? gpu.asked_clock : gpu.clock_maximum);
}

std::map<std::string, LeasedGpus> leased_gpus(const WatchedNodes& nodes) {
  std::map<std::string, LeasedGpus> all;
  for (const WatchedNode& node : nodes.nodes) {
    if (node.silent) continue;
    for (const WatchedGpu& gpu : node.gpus) {
      if (gpu.job.empty()) continue;
      LeasedGpus& leased = all[gpu.job];
      ++leased.gpus;
      leased.clocks.add(gpu);
      if (!gpu.power) continue;
      leased.power += *gpu.power;
      if (gpu.rank) leased.power_of_rank[*gpu.rank] += *gpu.power;
    }
  }
  return all;
}

std::map<int, Watts> power_of_stages(const Job& job, const LeasedGpus& leased) {
  std::map<int, Watts> stages;
  for (const auto& [number, power] : leased.power_of_rank) {
    const auto rank = job.ranks().find(static_cast<int>(number));
    if (rank != job.ranks().end()) stages[rank->second.request.pp_rank] += power;
  }
  return stages;
}

PowerNow power_now(const WatchedNodes& nodes) {
  PowerNow now;
  now.time = Seconds(now_seconds());
  for (const WatchedNode& node : nodes.nodes) {
    if (node.silent) continue;
    PowerNow::OfNode of_node{node.node, Watts()};
    bool is_told = false;
    for (const WatchedGpu& gpu : node.gpus) {
      if (!gpu.power) continue;
      of_node.power += *gpu.power;
      is_told = true;
    }
    if (is_told) now.nodes.push_back(std::move(of_node));
  }
  for (const auto& [job, leased] : leased_gpus(nodes)) now.jobs.push_back({job, leased.gpus, leased.power});
  return now;
}

JobRanks ranks_of(const Job& job, const WatchedNodes& nodes) {
  struct Place {
    const WatchedNode* node;
    const WatchedGpu* gpu;
  };
  std::map<std::int64_t, Place> places;  // a node that answers is believed before one that is silent
  for (const WatchedNode& node : nodes.nodes) {
    for (const WatchedGpu& gpu : node.gpus) {
      if (gpu.job != job.id() || !gpu.rank) continue;
      const auto [place, is_new] = places.try_emplace(*gpu.rank, Place{&node, &gpu});
      if (!is_new && place->second.node->silent) place->second = {&node, &gpu};
    }
  }
  JobRanks all{job.id(), std::ssize(job.ranks())};
  for (const auto& [number, rank] : job.ranks()) {
    if (all.ranks.size() == JobRanks::kMost) break;
    JobRankStatus& told = all.ranks.emplace_back();
    told.rank = number;
    told.dp_rank = rank.request.dp_rank;
    told.pp_rank = rank.request.pp_rank;
    told.tp_rank = rank.request.tp_rank;
    told.profiled = rank.profiled;
    if (rank.iteration_time > Seconds(0)) told.iteration_time = rank.iteration_time;
    if (rank.heard > 0.0) told.heard = Seconds(rank.heard);
    const auto found = job.found().all().find(number);
    if (found != job.found().all().end()) told.slowdown = found->second.slowdown;
    const auto place = places.find(number);
    if (place == places.end()) continue;
    const WatchedGpu& gpu = *place->second.gpu;
    told.node = place->second.node->node;
    told.gpu = static_cast<std::int64_t>(gpu.index);
    told.silent = place->second.node->silent;
    told.power = gpu.power;
    told.clock = gpu.clock;
    told.asked_clock = gpu.asked_clock;
    told.temperature_celsius = gpu.temperature_celsius;
    told.throttle_reasons = gpu.throttle_reasons;
  }
  return all;
}

}  // namespace flyball
