// A pass: look, count, find the ceiling, lower, raise as far as there is room, tell the agents.
#include "controller/clock_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/index.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

constexpr Nanoseconds kSettling = 3 * kSecond;          // sensors show the mean of a second, on some boards of less
constexpr Nanoseconds kSensorLag = 300 * kMillisecond;  // a reading before that may show the clock before
constexpr Nanoseconds kOffHeld = 60 * kSecond;
constexpr double kMeterSlack = 1.03;  // of what is expected: no more than a meter's error

}  // namespace

ClockKeeper::ClockKeeper(NodeAgents& agents, std::vector<Megahertz> clocks, Watts board_limit)
    : agents_(agents),
      clocks_(std::move(clocks)),
      board_limit_(board_limit),
      top_(static_cast<int>(clocks_.size()) - 1),
      levels_(top_),
      ceiling_level_(top_) {}

const ClockedPower* ClockKeeper::of(std::int64_t job) const {
  const auto known = kept_.find(job);
  return known == kept_.end() ? nullptr : &known->second.power;
}

Megahertz ClockKeeper::asked(std::int64_t job) const {
  const int speed = asked_speed(job);
  return speed < 0 ? Megahertz(0.0) : clocks_[at(speed)];
}

int ClockKeeper::asked_speed(std::int64_t job) const {
  const auto known = kept_.find(job);
  return known == kept_.end() ? -1 : known->second.asked;
}

std::vector<std::size_t> ClockKeeper::gpus_on(const NodeGpus& place) const {
  if (!place.indices.empty()) return place.indices;
  std::vector<std::size_t> free;
  const std::vector<bool>& claimed = claimed_.at(place.node);
  for (std::size_t gpu = 0; gpu < claimed.size(); ++gpu) {
    if (!claimed[gpu]) free.push_back(gpu);
  }
  return free;
}

ClockKeeper::Seen ClockKeeper::look_at(const ClockedJob& job) const {
  Seen seen;
  bool all_measured = true;
  bool all_counted = true;
  Watts measured;
  Joules energy;
  Seconds asked;  // of all GPUs together
  for (const NodeGpus& place : job.gpus) {
    seen.count += place.count;
    const AgentReading& reading = readings_.at(place.node);
    const std::vector<std::size_t> gpus = gpus_on(place);
    if (!reading.answers || gpus.empty()) {
      seen.silent += place.count;
      seen.held = all_measured = all_counted = false;
      continue;
    }
    seen.read_at = seen.read_at == 0 ? reading.asked : std::min(seen.read_at, reading.asked);
    const bool is_known = gpus.size() == static_cast<std::size_t>(place.count);  // else not which are the job's
    all_measured &= is_known;
    all_counted &= is_known;
    asked += to_seconds(reading.asked) * place.count;
    for (const std::size_t gpu : gpus) {
      const AgentGpu here = gpu < reading.gpus.size() ? reading.gpus[gpu] : AgentGpu();
      const bool held = here.bound.value() > 0.0;
      const auto speed = std::ranges::lower_bound(clocks_, here.bound) - clocks_.begin();
      seen.speed = std::max(seen.speed, held ? std::min(static_cast<int>(speed), top_) : top_);
      seen.held &= held;
      seen.bound_since = std::max(seen.bound_since, here.bound_since);
      all_measured &= here.power.has_value();
      measured += here.power.value_or(Watts(0.0));
      all_counted &= here.energy.has_value();
      energy += here.energy.value_or(Joules(0.0));
    }
  }
  if (all_measured) seen.measured = measured;
  if (all_counted && seen.count > 0) {
    seen.energy = energy;
    seen.energy_at = to_nanoseconds(asked / static_cast<double>(seen.count));
  }
  if (job.pace) {
    seen.speed = job.pace->answers ? job.pace->speed : job.top();
    seen.held = job.pace->answers;
    seen.bound_since = job.pace->taken;
  }
  return seen;
}

Watts ClockKeeper::power_at(const Row& row, int speed) const {
  if (row.seen.count == 0) return Watts(0.0);
  const double share = static_cast<double>(row.seen.count - row.seen.silent) / row.seen.count;
  return board_limit_ * static_cast<double>(row.seen.silent) +
         row.job->expected.at(at(speed)) * (share * row.kept->off);
}

// What the job has drawn; and of a job with a pace its mean watts, over two iterations and a second at least.
void ClockKeeper::count_energy(Row& row) {
  Kept& kept = *row.kept;
  Seen& seen = row.seen;
  if (seen.energy && kept.energy) kept.power.energy += std::max(Joules(0.0), *seen.energy - *kept.energy);
  kept.energy = seen.energy;
  if (!row.job->pace) return;
  seen.measured.reset();
  const bool is_new = kept.counted.empty() || kept.counted.back().at < seen.energy_at;
  if (seen.energy && is_new) kept.counted.push_back({seen.energy_at, *seen.energy});
  const Nanoseconds least = to_nanoseconds(std::max(Seconds(1.0), row.job->pace->iteration * 2.0));
  const auto has_span_without_first = [&] {
    return kept.counted.size() > 2 && kept.counted.back().at - kept.counted[1].at >= least;
  };
  while (!kept.counted.empty() && (kept.counted.front().at < row.job->pace->taken || has_span_without_first())) {
    kept.counted.pop_front();
  }
  if (kept.counted.size() < 2 || kept.counted.back().at - kept.counted.front().at < least) return;
  const Kept::Counted& first = kept.counted.front();
  const Kept::Counted& last = kept.counted.back();
  seen.measured = (last.energy - first.energy) / to_seconds(last.at - first.at);
}

// What the job counts with now, before anything is changed.
void ClockKeeper::count(Row& row, Nanoseconds now) {
  Kept& kept = *row.kept;
  const Seen& seen = row.seen;
  const bool is_same = kept.draws == row.job->draws && kept.gpus == row.job->gpus;
  if (!is_same) {
    kept.forget_peak();
    kept.lowered.reset();
    kept.off = 1.0;
    kept.gpus = row.job->gpus;
    kept.draws = row.job->draws;
    kept.energy.reset();
    kept.counted.clear();
  }
  count_energy(row);
  ClockedPower& power = kept.power;
  const int top = row.job->top();
  if (std::exchange(kept.top, top) != top) kept.asked = -1;
  if (kept.asked < 0) kept.asked = seen.speed < 0 ? top : seen.speed;
  const int asked = kept.asked;
  const bool was_ready = power.ready;
  power.ready = seen.speed <= asked;
  power.held = seen.held;
  power.settled = power.ready && seen.measured && seen.read_at > seen.bound_since;
  if (!power.ready && was_ready) kept.forget_peak();
  const Watts expected = row.job->expected[at(asked)];
  if (power.settled && seen.read_at - seen.bound_since > kSensorLag) {
    const double off = std::max(1.0, *seen.measured / expected);
    if (off >= kept.off || now - kept.off_at > kOffHeld) {
      kept.off = off;
      kept.off_at = now;
    }
  }
  if (kept.lowered) {
    const bool shown = power.settled && *seen.measured <= expected * (kept.off * kMeterSlack);
    const bool had_time = power.ready && now - std::max(*kept.lowered, seen.bound_since) >= kSettling;
    if (shown || had_time) kept.lowered.reset();
  }
  if (power.settled && !kept.lowered) power.peak = std::max(power.peak, *seen.measured);
  const Watts believed = power_at(row, std::max(asked, seen.speed));
  const Watts now_counts = std::max(believed, seen.measured.value_or(Watts(0.0)));
  power.counted = kept.lowered ? std::max(power.counted, now_counts) : now_counts;
  power.speed = seen.speed < 0 ? top : seen.speed;
  power.expected = row.job->expected[at(power.speed)];
  power.measured = seen.measured;
}

int ClockKeeper::ceiling_of(const Row& row) const {
  return levels_ == 0 ? row.job->top() : ceiling_level_ * row.job->top() / levels_;
}

// The highest speed that, if no job runs faster, keeps all of them within the limit.
void ClockKeeper::find_ceiling(const std::vector<Row>& rows, Watts limit, Nanoseconds now) {
  bool is_lower = false;
  levels_ = top_;
  for (const Row& row : rows) levels_ = std::max(levels_, row.job->top());
  for (ceiling_level_ = levels_; ceiling_level_ >= 0; --ceiling_level_) {
    Watts all;
    for (const Row& row : rows) {
      if (!row.job->draws) continue;
      // Clocks that cannot be set are taken as they are.
      const bool is_stuck = row.kept->lowered && !row.kept->power.ready && now - *row.kept->lowered >= kSettling;
      const int wished = row.job->speed.value_or(row.kept->asked);
      all += is_stuck ? row.kept->power.counted : power_at(row, std::min(wished, ceiling_of(row)));
    }
    if (all <= limit || ceiling_level_ == 0) break;
    is_lower = true;
  }
  ceiling_.reset();
  if (is_lower) ceiling_ = clocks_[at(levels_ == 0 ? 0 : ceiling_level_ * top_ / levels_)];
}

void ClockKeeper::pass(const std::vector<ClockedJob>& jobs, Watts limit, bool acts) {
  const Nanoseconds now = monotonic_now();
  readings_.clear();
  claimed_.clear();
  std::set<std::int64_t> there;
  for (const ClockedJob& job : jobs) {
    there.insert(job.job);
    for (const NodeGpus& place : job.gpus) {
      const auto [reading, is_new] = readings_.try_emplace(place.node);
      if (is_new) reading->second = agents_.reading(place.node);
      std::vector<bool>& claimed = claimed_[place.node];
      if (is_new) claimed.resize(reading->second.gpus.size());
      for (const std::size_t gpu : place.indices) {
        if (gpu < claimed.size()) claimed[gpu] = true;
      }
    }
  }
  std::erase_if(kept_, [&](const auto& one) { return there.count(one.first) == 0; });
  std::vector<Row> rows;
  for (const ClockedJob& job : jobs) rows.push_back({&job, &kept_[job.job], look_at(job)});
  for (Row& row : rows) count(row, now);
  find_ceiling(rows, limit, now);
  counted_ = lowest_ = Watts(0.0);
  is_settling_ = false;
  std::vector<std::pair<Row*, int>> raises;
  for (Row& row : rows) {
    Kept& kept = *row.kept;
    const int has = kept.asked;
    const int target = std::min(row.job->speed.value_or(has), ceiling_of(row));
    if (!row.job->draws) {
      if (target != has || !kept.lowered) kept.lowered = now;
      kept.asked = target;
      kept.power.ready = row.seen.speed <= target || now - *kept.lowered >= kSettling;
      kept.power.counted = power_at(row, std::max(row.seen.speed, target));
      continue;
    }
    if (target < has) {
      kept.lowered = now;
      kept.forget_peak();
    }
    if (target <= has) kept.asked = target;
    if (target > has) raises.emplace_back(&row, target);
    counted_ += kept.power.counted;
    lowest_ += power_at(row, 0);
    is_settling_ |= kept.lowered.has_value();
  }
  for (const auto& [row, target] : raises) {
    const Watts then = std::max(row->kept->power.counted, power_at(*row, target));
    const Watts more = then - row->kept->power.counted;
    if (counted_ + more > limit) continue;
    row->kept->asked = target;
    row->kept->power.counted = then;
    row->kept->forget_peak();
    counted_ += more;
  }
  if (acts) ask_agents(rows, counted_ <= limit);
}

void ClockKeeper::ask_agents(const std::vector<Row>& rows, bool may_release) {
  std::map<std::string, std::vector<GpuWish>> wishes;
  for (const Row& row : rows) {
    if (row.job->pace) continue;
    const Megahertz clock = clocks_[at(row.kept->asked)];
    const Watts share = row.job->expected[at(row.kept->asked)] / std::max(1, row.seen.count);
    for (const NodeGpus& place : row.job->gpus) {
      std::vector<GpuWish>& here = wishes[place.node];
      for (const std::size_t gpu : gpus_on(place)) {
        if (gpu >= here.size()) here.resize(gpu + 1);
        const bool is_shared = place.indices.empty() && here[gpu].bound.value() > 0.0;
        if (!is_shared || clock < here[gpu].bound) here[gpu] = {clock, share};
      }
    }
  }
  for (const auto& [node, gpus] : wishes) agents_.want(node, gpus);
  if (!may_release) return;
  for (const std::string& node : agents_.nodes()) {
    if (wishes.count(node) == 0) agents_.want(node, {});
  }
}

}  // namespace flyball
