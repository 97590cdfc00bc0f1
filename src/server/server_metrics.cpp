#include "server/server_metrics.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
#include <string_view>

namespace flyball {
namespace {

class MetricsText {
 public:
  template <class Value>
  void add(std::string_view name, std::string_view kind, std::string_view help, Value value) {
    head(name, kind, help);
    line(name, "", value);
  }

  void head(std::string_view name, std::string_view kind, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP flyball_server_{} {}\n# TYPE flyball_server_{} {}\n", name, help,
                   name, kind);
  }

  template <class Value>
  void line(std::string_view name, std::string_view labels, Value value) {
    fmt::format_to(std::back_inserter(text_), "flyball_server_{}{} {}\n", name, labels, value);
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_lookups(MetricsText& text, const JobBook::Counts& counts) {
  constexpr std::array kBounds = {"1e-05", "2.5e-05", "5e-05", "0.0001", "0.00025", "0.001", "+Inf"};
  constexpr std::string_view kName = "schedule_lookup_seconds";
  text.head(kName, "histogram", "Time to find and compose one rank's schedule, in seconds.");
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += counts.lookup_buckets[i];
    text.line("schedule_lookup_seconds_bucket", fmt::format("{{le=\"{}\"}}", kBounds[i]), below);
  }
  text.line("schedule_lookup_seconds_sum", "", counts.lookup_seconds);
  text.line("schedule_lookup_seconds_count", "", below);
}

}  // namespace

std::string server_metrics(const JobBook& book, const ServerCounts& http, std::uint64_t refused_rate, Seconds uptime) {
  MetricsText text;
  const JobBook::Counts& counts = book.counts();
  std::map<JobState, std::size_t> states;
  std::size_t ranks = 0;
  for (const Job* job : book.jobs()) {
    ++states[job->state()];
    ranks += job->ranks().size();
  }
  text.head("jobs", "gauge", "Jobs that the server holds, by state.");
  for (const JobState state : kAllJobStates) {
    text.line("jobs", fmt::format("{{state=\"{}\"}}", name_of(state)), states[state]);
  }
  text.add("ranks", "gauge", "Ranks registered in the jobs that the server holds.", ranks);
  text.add("waiting_polls", "gauge", "Requests that wait for a schedule.", counts.polls_waiting);
  text.add("jobs_created_total", "counter", "Jobs registered since the start.", counts.jobs_created);
  text.add("measurement_reports_total", "counter", "Reports of measurements counted.", counts.reports);
  text.add("measurement_reports_repeated_total", "counter", "Reports that had been counted before.",
           counts.duplicate_reports);
  text.add("measurements_total", "counter", "Measurements in the reports counted.", counts.measurements);
  text.add("straggler_notices_total", "counter", "Straggler notices received.", counts.notices);
  text.add("straggler_notices_stale_total", "counter", "Straggler notices that a newer one had overtaken.",
           counts.stale_notices);
  text.add("schedules_sent_total", "counter", "Schedules sent to ranks.", counts.schedules_sent);
  text.add("schedule_versions_total", "counter", "New schedules made known.", counts.deployments);
  add_lookups(text, counts);

  const PlanningQueue::Counts planning = book.planning_counts();
  text.add("plans_total", "counter", "Plans made.", planning.finished);
  text.add("plans_cancelled_total", "counter", "Plans abandoned because something newer came.", planning.cancelled);
  text.add("plans_failed_total", "counter", "Plans that could not be made.", planning.failed);
  text.add("planning_seconds_total", "counter", "Time spent planning, in seconds.", planning.seconds);
  text.add("plans_waiting", "gauge", "Plans that wait for a thread.", planning.waiting);

  const Store::Counts store = book.store_counts();
  text.add("store_writes_total", "counter", "Changes handed to the disk.", store.writes);
  text.add("store_commits_total", "counter", "Transactions that carried them, one flush of the disk each.",
           store.commits);
  text.add("store_commits_failed_total", "counter", "Transactions that failed.", store.failed_commits);
  text.add("store_commit_seconds_total", "counter", "Time spent in transactions, in seconds.", store.commit_seconds);

  text.add("http_requests_total", "counter", "Requests answered.", http.requests);
  text.add("http_bad_requests_total", "counter", "Requests that were no HTTP.", http.bad_requests);
  text.add("http_refused_rate_total", "counter", "Requests refused because there were too many.", refused_rate);
  text.add("http_connections_total", "counter", "Connections accepted.", http.accepted);
  text.add("http_open_connections", "gauge", "Connections open.", http.open_connections);
  text.add("http_dropped_slow_total", "counter", "Event streams dropped because their reader was too slow.",
           http.dropped_slow);
  text.add("uptime_seconds", "gauge", "Time since the start, in seconds.", uptime.value());
  return text.take();
}

}  // namespace flyball
