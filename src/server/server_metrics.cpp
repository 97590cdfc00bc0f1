// One table of names, units and help texts; values are counted by the book, its store and queue, and the HTTP server.
#include "server/server_metrics.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/contain.h"

namespace flyball {
namespace {

constexpr MetricKind kGauge = MetricKind::kGauge;
constexpr MetricKind kCounter = MetricKind::kCounter;

constexpr MetricInfo kRegistry[] = {
    {"flyball_server_jobs", kGauge, "1", "state", "Jobs that the server holds, by state."},
    {"flyball_server_ranks", kGauge, "1", "", "Ranks registered in the jobs that the server holds."},
    {"flyball_server_waiting_polls", kGauge, "1", "", "Requests that now wait for a schedule."},
    {"flyball_server_jobs_created_total", kCounter, "1", "", "Jobs registered since the server started."},
    {"flyball_server_jobs_expired_total", kCounter, "1", "why",
     "Jobs that expired: none of their ranks had been heard from for long (silent), or other jobs needed their place "
     "before a rank had registered (unstarted)."},
    {"flyball_server_jobs_over_limits", kGauge, "1", "", "Jobs whose plan does not keep to their limits on power."},
    {"flyball_server_jobs_by_promise", kGauge, "1", "promise",
     "Jobs by whether their iterations take what their plans promise."},
    {"flyball_server_compared_energy_joules", kGauge, "J", "",
     "Energy of the iterations by plan that were compared with maximum clocks, of the jobs that the server holds, by "
     "the GPUs' own counters."},
    {"flyball_server_compared_energy_at_maximum_joules", kGauge, "J", "",
     "Energy that as many iterations at maximum clocks take, likewise."},
    {"flyball_server_compared_energy_promised_joules", kGauge, "J", "",
     "Energy that these iterations were promised to take."},
    {"flyball_server_compared_energy_error_joules", kGauge, "J", "",
     "Standard error of the difference of the first two energies."},
    {"flyball_job_info", kGauge, "1", "job_id, name, state, planner", "1 for each job that the server holds."},
    {"flyball_job_promise", kGauge, "1", "job_id, promise",
     "1 for whether the job's iterations take what its plan promises."},
    {"flyball_job_iteration_seconds", kGauge, "s", "job_id", "Time of an iteration by plan, once it was measured."},
    {"flyball_job_promised_iteration_seconds", kGauge, "s", "job_id",
     "Time that an iteration by plan may take, by what maximum clocks take."},
    {"flyball_job_iteration_at_maximum_seconds", kGauge, "s", "job_id", "Time of an iteration at maximum clocks."},
    {"flyball_job_compared_energy_joules", kGauge, "J", "job_id",
     "Energy of the job's iterations by plan that were compared with maximum clocks."},
    {"flyball_job_compared_energy_at_maximum_joules", kGauge, "J", "job_id",
     "Energy that as many iterations at maximum clocks take."},
    {"flyball_job_compared_energy_promised_joules", kGauge, "J", "job_id",
     "Energy that these iterations were promised to take."},
    {"flyball_job_slow_ranks", kGauge, "1", "job_id",
     "Ranks of the job that now compute slower than when they were profiled."},
    {"flyball_server_jobs_unmeasured_total", kCounter, "1", "",
     "Times that a job's patience (patience_s) ended before every stage had been measured."},
    {"flyball_server_measurement_reports_total", kCounter, "1", "", "Reports of measurements that were counted."},
    {"flyball_server_measurement_reports_repeated_total", kCounter, "1", "",
     "Reports of measurements that had been counted before."},
    {"flyball_server_measurements_total", kCounter, "1", "", "Measurements in the reports that were counted."},
    {"flyball_server_straggler_notices_total", kCounter, "1", "", "Straggler notices received."},
    {"flyball_server_straggler_notices_stale_total", kCounter, "1", "",
     "Straggler notices that a newer notice had overtaken."},
    {"flyball_server_stragglers_found_total", kCounter, "1", "",
     "Times that a rank was found to compute slower than when it was profiled."},
    {"flyball_server_slow_ranks", kGauge, "1", "", "Ranks that now compute slower than when they were profiled."},
    {"flyball_server_unprofiled_ranks", kGauge, "1", "",
     "Ranks that do not profile themselves, as they say; GET /v1/jobs/ID tells why."},
    {"flyball_server_plans_in_force", kGauge, "1", "",
     "Plans that pipelines run: one for each job, or for each group of its pipelines that are alike."},
    {"flyball_server_jobs_lost_total", kCounter, "1", "",
     "Times that a job was lost: none of its ranks had been heard for a while (--lost-after)."},
    {"flyball_server_schedules_sent_total", kCounter, "1", "", "Schedules sent to ranks."},
    {"flyball_server_schedule_versions_total", kCounter, "1", "", "Versions of jobs' schedules published."},
    {"flyball_server_schedule_lookup_seconds", MetricKind::kHistogram, "s", "",
     "Time to find and compose one rank's schedule, in seconds."},
    {"flyball_server_plans_total", kCounter, "1", "", "Plans finished."},
    {"flyball_server_plans_cancelled_total", kCounter, "1", "",
     "Plans abandoned because new measurements came or the job ended."},
    {"flyball_server_plans_failed_total", kCounter, "1", "", "Plans that could not be made."},
    {"flyball_server_plans_overdue_total", kCounter, "1", "",
     "Plans ended early because they took too long; they are incomplete, or failed."},
    {"flyball_server_planning_seconds_total", kCounter, "s", "", "Time spent planning, in seconds."},
    {"flyball_server_plans_waiting", kGauge, "1", "", "Plans that now wait for a planning thread."},
    {"flyball_server_store_writes_total", kCounter, "1", "", "Changes to be written to the database."},
    {"flyball_server_store_commits_total", kCounter, "1", "",
     "Transactions that wrote changes to the database, each with one flush of the disk."},
    {"flyball_server_store_commits_failed_total", kCounter, "1", "", "Transactions of the database that failed."},
    {"flyball_server_store_commit_seconds_total", kCounter, "s", "",
     "Time spent in transactions of the database, in seconds."},
    {"flyball_server_http_requests_total", kCounter, "1", "", "HTTP requests answered."},
    {"flyball_server_http_bad_requests_total", kCounter, "1", "", "Requests that were not valid HTTP."},
    {"flyball_server_http_refused_rate_total", kCounter, "1", "", "Requests refused because one client sent too many."},
    {"flyball_server_http_connections_total", kCounter, "1", "", "Connections accepted."},
    {"flyball_server_http_open_connections", kGauge, "1", "", "Connections that are open."},
    {"flyball_server_http_refused_connections_total", kCounter, "1", "",
     "Connections closed unanswered because their address, or the server, had too many."},
    {"flyball_server_http_abandoned_total", kCounter, "1", "",
     "Requests whose client was gone before the answer came."},
    {"flyball_server_http_dropped_slow_total", kCounter, "1", "",
     "Event streams dropped because their reader was too slow."},
    {"flyball_server_exceptions_total", kCounter, "1", "",
     "Unexpected exceptions; each ended one request or piece of work. Standard error has the causes."},
    {"flyball_server_uptime_seconds", kGauge, "s", "", "Time since the server started, in seconds."},
};

// Times and energies that are not known yet are left out.
void expose_job(MetricsText& text, const Job& job) {
  const std::string_view id = job.id();
  const auto add = [&](std::string_view name, double value) {
    if (value > 0.0) text.add(fmt::format("flyball_job_{}", name), {{"job_id", id}}, value);
  };
  const JobPromise& promise = job.promise().known();
  text.add("flyball_job_info",
           {{"job_id", id},
            {"name", job.request().name},
            {"state", name_of(job.state())},
            {"planner", planner_of(job.request())}},
           1);
  text.add("flyball_job_promise", {{"job_id", id}, {"promise", name_of(promise.verdict)}}, 1);
  add("iteration_seconds", promise.measured.value());
  add("promised_iteration_seconds", promise.promised.value());
  add("iteration_at_maximum_seconds", promise.at_maximum.value());
  const RankSavings savings = job.savings();
  add("compared_energy_joules", savings.energy.value());
  add("compared_energy_at_maximum_joules", savings.energy_at_maximum.value());
  add("compared_energy_promised_joules", job.promised_energy().value());
  text.add("flyball_job_slow_ranks", {{"job_id", id}}, static_cast<double>(job.found().all().size()));
}

}  // namespace

std::span<const MetricInfo> server_metric_registry() { return kRegistry; }

std::string server_metrics(const JobBook& book, bool of_jobs, std::size_t zeus_waiting, const ServerCounts& http,
                           std::uint64_t refused_rate, Seconds uptime) {
  MetricsText text(kRegistry);
  const auto add = [&](std::string_view name, auto value) {
    text.add(fmt::format("flyball_server_{}", name), {}, static_cast<double>(value));
  };
  const JobBook::Counts& counts = book.counts();
  std::map<JobState, std::size_t> states;
  std::size_t ranks = 0;
  std::size_t over_limits = 0;
  std::size_t slow_ranks = 0;
  std::size_t unprofiled = 0;
  std::size_t plans = 0;
  std::map<PromiseVerdict, std::size_t> promises;
  RankSavings savings;
  Joules promised;
  for (const Job* job : book.jobs()) {
    ++promises[job->promise().known().verdict];
    add_savings(savings, job->savings());
    promised += job->promised_energy();
    if (job->current() && !job->current()->plan->keeps_limits()) ++over_limits;
    if (job->current()) plans += job->current()->plan->plans();
    if (of_jobs) expose_job(text, *job);
    ++states[job->state()];
    ranks += job->ranks().size();
    slow_ranks += job->found().all().size();
    unprofiled += job->unprofiled_ranks(job->ranks().size()).size();
  }
  for (const JobState state : values_of<JobState>()) {
    text.add("flyball_server_jobs", {{"state", name_of(state)}}, static_cast<double>(states[state]));
  }
  for (const PromiseVerdict verdict : values_of<PromiseVerdict>()) {
    text.add("flyball_server_jobs_by_promise", {{"promise", name_of(verdict)}}, static_cast<double>(promises[verdict]));
  }
  add("compared_energy_joules", savings.energy.value());
  add("compared_energy_at_maximum_joules", savings.energy_at_maximum.value());
  add("compared_energy_promised_joules", promised.value());
  add("compared_energy_error_joules", savings.energy_error.value());
  add("ranks", ranks);
  add("waiting_polls", counts.polls_waiting + zeus_waiting);
  add("jobs_created_total", counts.jobs_created);
  text.add("flyball_server_jobs_expired_total", {{"why", "silent"}}, static_cast<double>(counts.expired_silent));
  text.add("flyball_server_jobs_expired_total", {{"why", "unstarted"}}, static_cast<double>(counts.expired_unstarted));
  add("jobs_over_limits", over_limits);
  add("jobs_unmeasured_total", counts.stages_missed);
  add("measurement_reports_total", counts.reports);
  add("measurement_reports_repeated_total", counts.duplicate_reports);
  add("measurements_total", counts.measurements);
  add("straggler_notices_total", counts.notices);
  add("straggler_notices_stale_total", counts.stale_notices);
  add("stragglers_found_total", counts.stragglers_found);
  add("slow_ranks", slow_ranks);
  add("unprofiled_ranks", unprofiled);
  add("plans_in_force", plans);
  add("jobs_lost_total", counts.jobs_lost);
  add("schedules_sent_total", counts.schedules_sent);
  add("schedule_versions_total", counts.deployments);
  text.add_histogram("flyball_server_schedule_lookup_seconds", JobBook::kLookupBounds, counts.lookup_buckets,
                     counts.lookup_seconds);

  const PlanningQueue::Counts planning = book.planning_counts();
  add("plans_total", planning.finished);
  add("plans_cancelled_total", planning.cancelled);
  add("plans_failed_total", planning.failed);
  add("plans_overdue_total", planning.overdue);
  add("planning_seconds_total", planning.seconds);
  add("plans_waiting", planning.waiting);

  const Store::Counts store = book.store_counts();
  add("store_writes_total", store.writes);
  add("store_commits_total", store.commits);
  add("store_commits_failed_total", store.failed_commits);
  add("store_commit_seconds_total", store.commit_seconds);

  add("http_requests_total", http.requests);
  add("http_bad_requests_total", http.bad_requests);
  add("http_refused_rate_total", refused_rate);
  add("http_connections_total", http.accepted);
  add("http_open_connections", http.open_connections);
  add("http_refused_connections_total", http.refused);
  add("http_abandoned_total", http.abandoned);
  add("http_dropped_slow_total", http.dropped_slow);
  add("exceptions_total", contained_exceptions());
  add("uptime_seconds", uptime.value());
  return text.text();
}

}  // namespace flyball
