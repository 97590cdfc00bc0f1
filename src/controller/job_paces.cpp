// A turn asks for each job: it announces what is wanted, and then looks at what is in force.
#include "controller/job_paces.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/monotonic_time.h"

namespace flyball {
namespace {

constexpr std::size_t kMostSpeeds = 32;
constexpr double kSameTime = 1e-9;  // relative

double degree_of(const JobPace& pace, int speed) {
  return std::max(1.0, pace.speeds[at(speed)].time / pace.speeds.back().time);
}

// The server runs the slowest point that ends in time.
int speed_of(const JobPace& pace, double degree) {
  int speed = static_cast<int>(pace.speeds.size()) - 1;
  while (speed > 0 && degree_of(pace, speed - 1) <= degree * (1.0 + kSameTime)) --speed;
  return speed;
}

}  // namespace

std::vector<IterationCost> speeds_of(const FrontierReport& frontier, int gpus_per_stage) {
  std::vector<IterationCost> speeds;
  if (frontier.base_point >= frontier.points.size()) return speeds;
  const std::size_t steps = frontier.points.size() - 1 - frontier.base_point;
  const std::size_t count = std::min(steps + 1, kMostSpeeds);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = frontier.points.size() - 1 - (count == 1 ? 0 : i * steps / (count - 1));
    const FrontierPointReport& point = frontier.points[index];
    speeds.push_back({point.time, point.energy * static_cast<double>(gpus_per_stage)});
  }
  return speeds;
}

JobPaces::JobPaces(JobPacesOptions options)
    : options_(std::move(options)),
      server_(options_.server, options_.token, Seconds(0), options_.ca_file),
      thread_("the planning server's thread", options_.period, [this] {
        turn();
        return options_.period;
      }) {}

JobPaces::~JobPaces() {
  stopping_ = true;
  thread_.stop();
  server_.interrupt();
}

void JobPaces::follow(std::int64_t job, int restarts) {
  const std::lock_guard lock(mutex_);
  Followed& followed = jobs_[job];
  if (followed.restarts != restarts) followed = Followed();
  followed.restarts = restarts;
}

void JobPaces::forget(std::int64_t job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

void JobPaces::want(std::int64_t job, int speed, std::int64_t frontier) {
  const std::lock_guard lock(mutex_);
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  const Wish wish{speed, frontier};
  if (std::exchange(known->second.wish, wish) != wish) thread_.wake();
}

JobPace JobPaces::pace(std::int64_t job) const {
  const std::lock_guard lock(mutex_);
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return {};
  JobPace shown = known->second.shown;
  shown.answers = known->second.seen != 0 && to_seconds(monotonic_now() - known->second.seen) <= options_.silent_after;
  return shown;
}

void JobPaces::wait_for(std::int64_t job, Seconds most) const {
  const Nanoseconds end = monotonic_now() + to_nanoseconds(most);
  while (monotonic_now() < end) {
    const JobPace known = pace(job);
    if (known.answers || !known.trouble.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Where the server cannot be reached, one job has waited for that, and the others need not.
void JobPaces::turn() {
  std::vector<std::int64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, job] : jobs_) numbers.push_back(number);
  }
  std::string unreachable;
  for (const std::int64_t number : numbers) {
    if (stopping_) return;
    Followed job;
    {
      const std::lock_guard lock(mutex_);
      const auto known = jobs_.find(number);
      if (known == jobs_.end()) continue;
      job = known->second;
    }
    job.shown.trouble = unreachable;
    if (unreachable.empty()) {
      try {
        job.shown.trouble = exchange(number, job);
        job.seen = monotonic_now();
      } catch (const ServerRefusal& refusal) {
        job.shown.trouble = refusal.what();
      } catch (const Error& error) {
        job.shown.trouble = unreachable = error.what();
      }
    }
    const std::lock_guard lock(mutex_);
    const auto known = jobs_.find(number);
    if (known == jobs_.end() || known->second.restarts != job.restarts) continue;
    job.wish = known->second.wish;  // which may have changed meanwhile
    known->second = std::move(job);
  }
}

JobStatus JobPaces::status_of(std::int64_t number, const Followed& job) {
  if (!job.shown.plan.empty()) return server_.status(job.shown.plan);
  if (job.restarts > 0) {
    try {
      return server_.status(fmt::format("slurm-{}.{}", number, job.restarts));
    } catch (const ServerRefusal& refusal) {
      if (refusal.status() != 404) throw;
    }
  }
  return server_.status(fmt::format("slurm-{}", number));
}

// Returns why the job has no speeds.
std::string JobPaces::exchange(std::int64_t number, Followed& job) {
  JobPace& shown = job.shown;
  if (job.wish && !shown.speeds.empty()) announce(job);
  JobStatus status;
  try {
    status = status_of(number, job);
  } catch (const ServerRefusal& refusal) {
    shown = {};
    if (refusal.status() != 404) throw;
    return fmt::format("the planning server has no job slurm-{}", number);
  }
  shown.plan = status.job;
  shown.gpus = status.stages * status.data_parallel * status.tensor_parallel;
  const bool is_over = status.state == JobState::kEnded || status.state == JobState::kLost;
  if (is_over || status.frontier_version == 0) {
    shown.speeds.clear();
    shown.frontier = 0;
    return is_over ? fmt::format("its plan's job {} has ended", status.job)
                   : fmt::format("its plan is not there yet: job {} is {}", status.job, name_of(status.state));
  }
  if (shown.frontier != status.frontier_version) {
    shown.speeds = speeds_of(server_.frontier(status.job), status.data_parallel * status.tensor_parallel);
    shown.frontier = status.frontier_version;
    shown.since = 0;
  }
  if (shown.speeds.empty()) return fmt::format("the frontier of job {} has no points", status.job);
  const auto ours = std::ranges::find(status.stragglers, StragglerId(kPaceStraggler), &StragglerState::straggler);
  const int speed = speed_of(shown, ours == status.stragglers.end() ? 1.0 : ours->degree);
  if (shown.since == 0 || speed != shown.speed) shown.since = monotonic_now();
  shown.speed = speed;
  return {};
}

// A pace that lasts is announced three times in that time.
void JobPaces::announce(Followed& job) {
  const JobPace& shown = job.shown;
  if (job.wish->frontier != shown.frontier || at(job.wish->speed) >= shown.speeds.size()) return;
  const double degree = degree_of(shown, job.wish->speed);
  const bool is_own = job.wish->speed + 1 == static_cast<int>(shown.speeds.size());
  const bool is_due = to_seconds(monotonic_now() - job.announced) > options_.lasts * (1.0 / 3.0);
  if (job.wish->speed == shown.speed && (is_own || (job.announced != 0 && !is_due))) return;
  StragglerNotice notice{kPaceStraggler, is_own ? 1.0 : degree * (1.0 + kSameTime), Seconds(0), std::nullopt};
  if (!is_own) notice.lasts = options_.lasts;
  (void)server_.set_straggler(shown.plan, notice);
  job.announced = monotonic_now();
}

}  // namespace flyball
