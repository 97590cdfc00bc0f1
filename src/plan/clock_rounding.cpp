#include "plan/clock_rounding.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace flyball {
namespace {

// Energies closer than this are equal: far below a meter's digit, far above rounding of a sum.
constexpr double kSameJoules = 1e-9;

constexpr int kMostPairSweeps = 6;
constexpr std::int32_t kPairReach = 6;  // options up and down that a pair is searched for

}  // namespace

ClockRounder::ClockRounder(const PlanProblem& problem) : dag_(*problem.dag) {
  for (std::size_t type = 0; type < problem.choices.size(); ++type) {
    const OperationType& operation = dag_.types()[type];
    std::vector<Nanoseconds> times;
    std::vector<double> nets;
    for (const std::uint16_t option : problem.choices[type].pareto) {
      times.push_back(to_nanoseconds(operation.options[option].time));
      nets.push_back(flyball::net_joules(operation.options[option], problem.charged_blocking(operation)));
    }
    times_.push_back(std::move(times));
    nets_.push_back(std::move(nets));
    options_.push_back(&problem.choices[type].pareto);
  }
  for (std::size_t type = 0; type < times_.size(); ++type) {
    choices_.push_back({times_[type].data(), nets_[type].data(), static_cast<Level>(times_[type].size()) - 1});
  }
  const std::size_t n = index(dag_.size());
  for (std::size_t i = 0; i < n; ++i) {
    type_.push_back(static_cast<std::size_t>(dag_.computations()[i].type));
    unlimited_.push_back(choices_[type_[i]].slowest);
  }
  level_.assign(n, 0);
  cap_.assign(n, 0);
  finish_.assign(n, 0);
  latest_start_.assign(n, 0);
  plan_.assign(n, 0);
}

void ClockRounder::round(const FrontierStretch& stretch, Nanoseconds deadline) {
  const Nanoseconds delta = stretch.t_high - deadline;
  for (std::size_t i = 0; i < level_.size(); ++i) {
    const Nanoseconds start = stretch.start[i] - std::min(stretch.start_shift[i], delta);
    const Nanoseconds finish = stretch.finish[i] - std::min(stretch.finish_shift[i], delta);
    const Choices& type = choices_[type_[i]];
    // Windows change little from point to point, so the last level is near the new floor.
    Level level = level_[i];
    while (level < type.slowest && type.time[level + 1] <= finish - start) ++level;
    while (level > 0 && type.time[level] > finish - start) --level;
    level_[i] = level;
    cap_[i] = std::min(level + 1, type.slowest);
  }
  fill_forwards(deadline, cap_, 0);
  fill_backwards(deadline, 0);
  improve_pairs(deadline);
}

void ClockRounder::load(const ClockPlan& plan) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto& pareto = *options_[type_[i]];
    const auto found = std::find(pareto.begin(), pareto.end(), plan[i]);
    assert(found != pareto.end());
    level_[i] = static_cast<Level>(found - pareto.begin());
  }
}

Nanoseconds ClockRounder::earliest_start(int i) const {
  Nanoseconds start = 0;
  for (const std::int32_t p : dag_.predecessors(i)) start = std::max(start, finish_[index(p)]);
  return start;
}

Nanoseconds ClockRounder::latest_finish(int i, Nanoseconds deadline) const {
  Nanoseconds finish = deadline;
  for (const std::int32_t s : dag_.successors(i)) finish = std::min(finish, latest_start_[index(s)]);
  return finish;
}

void ClockRounder::place_early() {
  for (int i = 0; i < dag_.size(); ++i) finish_[index(i)] = earliest_start(i) + duration(i);
}

void ClockRounder::place_late(Nanoseconds deadline) {
  for (int i = dag_.size() - 1; i >= 0; --i) latest_start_[index(i)] = latest_finish(i, deadline) - duration(i);
}

void ClockRounder::fill_forwards(Nanoseconds deadline, std::span<const Level> most, std::uint32_t skip_eighths) {
  place_late(deadline);
  for (int i = 0; i < dag_.size(); ++i) {
    const Choices& type = choices(i);
    const Nanoseconds start = earliest_start(i);
    Level level = level_[index(i)];
    if (level < most[index(i)]) {
      const Nanoseconds room = latest_start_[index(i)] + type.time[level] - start;
      if (type.time[level + 1] <= room && (skip_eighths == 0 || (draw() & 7) >= skip_eighths)) {
        do ++level;
        while (level < most[index(i)] && type.time[level + 1] <= room);
        level_[index(i)] = level;
      }
    }
    finish_[index(i)] = start + type.time[level];
  }
}

void ClockRounder::fill_backwards(Nanoseconds deadline, std::uint32_t skip_eighths) {
  place_early();
  for (int i = dag_.size() - 1; i >= 0; --i) {
    const Choices& type = choices(i);
    const Nanoseconds finish = latest_finish(i, deadline);
    Level level = level_[index(i)];
    if (level < type.slowest) {
      const Nanoseconds room = finish - (finish_[index(i)] - type.time[level]);
      if (type.time[level + 1] <= room && (skip_eighths == 0 || (draw() & 7) >= skip_eighths)) {
        do ++level;
        while (level < type.slowest && type.time[level + 1] <= room);
        level_[index(i)] = level;
      }
    }
    latest_start_[index(i)] = finish - type.time[level];
  }
}

const ClockRounder::PairTable& ClockRounder::pair_table(std::size_t first_type, std::size_t second_type) {
  PairTable& table = pair_tables_[first_type * choices_.size() + second_type];
  if (!table.empty()) return table;

  struct Sum {
    Nanoseconds time;
    double net;
  };
  std::vector<Sum> sums;
  for (std::size_t a = 0; a < times_[first_type].size(); ++a) {
    for (std::size_t b = 0; b < times_[second_type].size(); ++b) {
      sums.push_back({times_[first_type][a] + times_[second_type][b], nets_[first_type][a] + nets_[second_type][b]});
    }
  }
  std::vector<Sum> cheapest = sums;  // by rising time, those that are cheaper than all before
  std::sort(cheapest.begin(), cheapest.end(),
            [](const Sum& x, const Sum& y) { return x.time != y.time ? x.time < y.time : x.net < y.net; });
  std::size_t kept = 0;
  for (const Sum& sum : cheapest) {
    if (kept == 0 || sum.net < cheapest[kept - 1].net) cheapest[kept++] = sum;
  }
  cheapest.resize(kept);
  for (const Sum& sum : sums) {
    const auto better = std::partition_point(cheapest.begin(), cheapest.end(),
                                             [&](const Sum& other) { return other.net >= sum.net - kSameJoules; });
    table.push_back(better == cheapest.end() ? std::numeric_limits<Nanoseconds>::max() : better->time - sum.time);
  }
  return table;
}

// One pass in time order over adjacent operations. finish_ is kept for what lies behind `after`, latest_start_ holds for
// what lies ahead of it; an operation between the two of a pair is not delayed at all, so neither goes wrong.
int ClockRounder::improve_pairs(Nanoseconds deadline) {
  place_late(deadline);
  int improved = 0;
  for (int after = 0; after < dag_.size(); ++after) {
    finish_[index(after)] = earliest_start(after) + duration(after);
    const Nanoseconds end = latest_finish(after, deadline);
    for (const std::int32_t before : dag_.predecessors(after)) {
      if (!improve_pair(before, after, end)) continue;
      ++improved;
      finish_[index(before)] = earliest_start(before) + duration(before);
      finish_[index(after)] = earliest_start(after) + duration(after);
    }
  }
  return improved;
}

bool ClockRounder::improve_pair(int before, int after, Nanoseconds end) {
  const Choices& first = choices(before);
  const Choices& second = choices(after);
  const Level old_first = level_[index(before)];
  const Level old_second = level_[index(after)];
  const Nanoseconds start = finish_[index(before)] - first.time[old_first];
  const Nanoseconds spare = end - start - first.time[old_first] - second.time[old_second];
  const PairTable& table = pair_table(type_[index(before)], type_[index(after)]);
  if (table[index(old_first * (second.slowest + 1) + old_second)] > spare) return false;

  Nanoseconds first_end = end;  // other successors of `before` must still be on time
  for (const std::int32_t s : dag_.successors(before)) {
    if (s == after) continue;
    first_end = std::min(first_end, s < after ? finish_[index(s)] - duration(s) : latest_start_[index(s)]);
  }
  Nanoseconds second_start = 0;  // other predecessors of `after` end when they end
  for (const std::int32_t p : dag_.predecessors(after)) {
    if (p != before) second_start = std::max(second_start, finish_[index(p)]);
  }
  double least = first.net[old_first] + second.net[old_second] - kSameJoules;
  Level best_first = -1;
  Level best_second = -1;
  const Level slowest = std::min(first.slowest, old_first + kPairReach);
  Level b = std::min(second.slowest, old_second + kPairReach);
  for (Level a = std::max(0, old_first - kPairReach); a <= slowest; ++a) {
    const Nanoseconds meet = start + first.time[a];
    if (meet > first_end) break;
    const Nanoseconds from = std::max(meet, second_start);
    while (b >= 0 && from + second.time[b] > end) --b;
    if (b < 0) break;
    if (first.net[a] + second.net[b] < least) {
      least = first.net[a] + second.net[b];
      best_first = a;
      best_second = b;
    }
  }
  if (best_first < 0) return false;
  level_[index(before)] = best_first;
  level_[index(after)] = best_second;
  return true;
}

void ClockRounder::search(Nanoseconds deadline, int trials) {
  const auto n = static_cast<std::uint32_t>(level_.size());
  std::vector<Level> kept = level_;
  double kept_net = net_joules();
  std::vector<std::int32_t> region;
  for (int trial = 0; trial < trials; ++trial) {
    region.assign(1, static_cast<std::int32_t>(draw() % n));
    const std::size_t size = 2 + draw() % 10;
    for (std::size_t r = 0; r < region.size() && region.size() < size; ++r) {
      const std::int32_t centre = region[r];
      for (const std::int32_t p : dag_.predecessors(centre)) region.push_back(p);
      for (const std::int32_t s : dag_.successors(centre)) region.push_back(s);
    }
    for (const std::int32_t i : region) {
      if (draw() % 4 == 0) continue;
      level_[index(i)] = std::max(0, level_[index(i)] - (draw() % 4 == 0 ? 2 : 1));
    }
    switch (draw() % 4) {
      case 0:
        fill_forwards(deadline, unlimited_, 4);
        fill_backwards(deadline, 0);
        break;
      case 1:
        fill_backwards(deadline, 4);
        fill_forwards(deadline, unlimited_, 0);
        break;
      case 2: fill_forwards(deadline, unlimited_, 0); break;
      default: fill_backwards(deadline, 0); break;
    }
    const double net = net_joules();
    if (net <= kept_net) {
      kept_net = net;
      kept = level_;
    } else {
      level_ = kept;
    }
  }
}

void ClockRounder::polish(Nanoseconds deadline, int trials) {
  random_ = 0x9E3779B97F4A7C15u;  // the same trials whatever was planned before
  fill_forwards(deadline, unlimited_, 0);
  for (int sweep = 0; sweep < kMostPairSweeps && improve_pairs(deadline) > 0; ++sweep) {
  }
  if (trials == 0) return;
  search(deadline, trials);
  for (int sweep = 0; sweep < kMostPairSweeps && improve_pairs(deadline) > 0; ++sweep) {
  }
}

Nanoseconds ClockRounder::makespan() {
  place_early();
  return finish_.empty() ? 0 : *std::max_element(finish_.begin(), finish_.end());
}

double ClockRounder::net_joules() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < level_.size(); ++i) sum += choices_[type_[i]].net[level_[i]];
  return sum;
}

const ClockPlan& ClockRounder::plan() {
  for (std::size_t i = 0; i < level_.size(); ++i) plan_[i] = (*options_[type_[i]])[static_cast<std::size_t>(level_[i])];
  return plan_;
}

// xorshift64 (Marsaglia 2003).
std::uint32_t ClockRounder::draw() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<std::uint32_t>(random_ >> 24);
}

}  // namespace flyball
