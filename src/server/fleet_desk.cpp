// Once a second: the nodes as their agents told them last and the book's jobs become rows of the history and events.
// Histories are read in the history's own thread, and answered in the loop's.
#include "server/fleet_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/monotonic_time.h"
#include "base/record.h"
#include "base/text.h"
#include "base/wall_clock.h"
#include "net/json_response.h"
#include "server/leased_gpus.h"

namespace flyball {
namespace {

constexpr Seconds kPeriod{1.0};
constexpr double kUsualPast = 3600.0;  // s, of a history

enum Table : std::size_t { kNodes, kJobs, kStages, kFleet };
constexpr const char* kWholeFleet = "all";  // the fleet's only source

const std::vector<HistoryTable>& tables() {
  static const std::vector<HistoryTable> kTables = {
      {"nodes",
       {{"power_w"},
        {"clock_mhz"},
        {"asked_clock_mhz"},
        {"temperature_c", Coarser::kHighest},
        {"gpus_leased"},
        {"gpus_throttled"}}},
      {"jobs",
       {{"power_w"},
        {"iteration_s"},
        {"promised_iteration_s"},
        {"iteration_at_maximum_s"},
        {"saved_j", Coarser::kHighest},
        {"promised_saved_j", Coarser::kHighest},
        {"slow_ranks", Coarser::kHighest},
        {"version", Coarser::kHighest},
        {"clock_mhz"},
        {"asked_clock_mhz"}}},
      {"stages", {{"power_w"}}},
      {"fleet",
       {{"power_w"},
        {"gpus"},
        {"gpus_leased"},
        {"nodes_silent", Coarser::kHighest},
        {"jobs_running"},
        {"energy_j", Coarser::kSum},
        {"read_s", Coarser::kSum},
        {"complete_s", Coarser::kSum},
        {"budget_w"}}},
  };
  return kTables;
}

template <class Quantity>
std::optional<Quantity> quantity(const std::optional<double>& figure) {
  return figure ? std::optional(Quantity(*figure)) : std::nullopt;
}

std::optional<double> if_known(double figure) { return figure > 0.0 ? std::optional(figure) : std::nullopt; }

// By its power limit, its temperature or its board; an idle GPU has a low clock for want of work.
bool is_held_back(const WatchedGpu& gpu) {
  return std::ranges::any_of(gpu.throttle_reasons, [](const std::string& reason) {
    return reason == "power_limit" || reason == "thermal" || reason == "hardware_slowdown";
  });
}

HistoryFigures figures_of(const WatchedNode& node) {
  std::optional<double> power;
  MeanClocks clocks;
  std::optional<double> temperature;
  double leased = 0.0;
  double throttled = 0.0;
  for (const WatchedGpu& gpu : node.gpus) {
    if (gpu.power) power = power.value_or(0.0) + gpu.power->value();
    clocks.add(gpu);
    if (gpu.temperature_celsius) temperature = std::max(temperature.value_or(-300.0), *gpu.temperature_celsius);
    leased += gpu.holder.empty() ? 0.0 : 1.0;
    throttled += is_held_back(gpu) ? 1.0 : 0.0;
  }
  return {power, clocks.held(), clocks.asked(), temperature, leased, throttled};
}

// `now`: Unix time at which the node was told. A lease that names no job may be the controller's, who knows the job.
HeldGpus held_gpus(const WatchedNode& node, Seconds now, const ControllerWatch::Holders& holders) {
  HeldGpus held{node.node, now - node.age.value_or(Seconds()), {}};
  for (const WatchedGpu& gpu : node.gpus) {
    held.gpus.push_back({gpu.index, gpu.job, gpu.rank, gpu.holder, held.time - gpu.leased_for.value_or(Seconds())});
    if (gpu.holder.empty() || !gpu.job.empty()) continue;
    const auto holder = holders.find({node.node, gpu.index});
    if (holder != holders.end()) held.gpus.back().job = holder->second;
  }
  return held;
}

NodeHistoryRow node_row(const History::Row& row) {
  return {row.time,
          quantity<Watts>(row.figures[0]),
          quantity<Megahertz>(row.figures[1]),
          quantity<Megahertz>(row.figures[2]),
          row.figures[3],
          row.figures[4],
          row.figures[5]};
}

// `leased`: null where no lease names the job.
HistoryFigures figures_of(const Job& job, const LeasedGpus* leased) {
  const JobPromise& promise = job.promise().known();
  const RankSavings savings = job.savings();
  const auto power = leased == nullptr ? std::nullopt : std::optional(leased->power.value());
  HistoryFigures figures = {power, if_known(promise.measured.value()), if_known(promise.promised.value()),
                            if_known(promise.at_maximum.value())};
  const bool is_compared = savings.iterations > 0;
  const Joules maximum = savings.energy_at_maximum;
  figures.push_back(is_compared ? std::optional((maximum - savings.energy).value()) : std::nullopt);
  figures.push_back(is_compared ? std::optional((maximum - job.promised_energy()).value()) : std::nullopt);
  figures.emplace_back(static_cast<double>(job.found().all().size()));
  figures.push_back(job.current() ? std::optional(static_cast<double>(job.current()->version)) : std::nullopt);
  const MeanClocks clocks = leased == nullptr ? MeanClocks() : leased->clocks;
  figures.push_back(clocks.held());
  figures.push_back(clocks.asked());
  return figures;
}

JobHistoryRow job_row(const History::Row& row) {
  return {row.time,
          quantity<Watts>(row.figures[0]),
          quantity<Seconds>(row.figures[1]),
          quantity<Seconds>(row.figures[2]),
          quantity<Seconds>(row.figures[3]),
          quantity<Joules>(row.figures[4]),
          quantity<Joules>(row.figures[5]),
          row.figures[6],
          row.figures[7],
          quantity<Megahertz>(row.figures[8]),
          quantity<Megahertz>(row.figures[9])};
}

// The fleet's columns of sums.
FleetEnergy energy_of(const History::Total& total) {
  constexpr std::size_t kEnergy = 5;
  const Seconds length = total.until - total.from;
  // The first reading may count for a time that began a moment before.
  const auto time = [&](std::size_t column) { return std::min(Seconds(total.sums[column].value_or(0.0)), length); };
  return {total.from, total.until, quantity<Joules>(total.sums[kEnergy]), time(kEnergy + 1), time(kEnergy + 2)};
}

FleetHistoryRow fleet_row(const History::Row& row) {
  return {row.time,       quantity<Watts>(row.figures[0]), row.figures[1], row.figures[2], row.figures[3],
          row.figures[4], quantity<Watts>(row.figures[8])};
}

// Of what is kept of a stage there is only its power.
JobHistoryRow stage_row(const History::Row& row) {
  JobHistoryRow told;
  told.time = row.time;
  told.power = quantity<Watts>(row.figures[0]);
  return told;
}

// An id that is used again is another job.
std::string source_of(const Job& job) { return fmt::format("{} {}", job.stored().job, job.id()); }

std::string source_of(const Job& job, int stage) { return fmt::format("{} {}", source_of(job), stage); }

std::optional<int> query_stage(const Request& request, const Job& job) {
  const auto text = request.query.find("stage");
  if (!text) return std::nullopt;
  const auto stage = parse_integer(*text);
  if (!stage || *stage < 0 || *stage >= job.request().stages) {
    throw HttpError(400,
                    fmt::format("stage is '{}', but the job's stages are 0 to {}", *text, job.request().stages - 1));
  }
  return static_cast<int>(*stage);
}

double query_time(const Request& request, const char* name, double standard) {
  const auto text = request.query.find(name);
  if (!text) return standard;
  const auto time = parse_number(*text);
  if (!time || *time < 0.0 || *time > 1e11) {
    throw HttpError(400, fmt::format("{} is '{}', it must be a Unix time in seconds", name, *text));
  }
  return *time;
}

template <class Told, class RowOf>
std::function<Response(const History::Rows&)> showing(Told told, RowOf row_of) {
  return [told = std::move(told), row_of](const History::Rows& rows) mutable {
    told.step = rows.step;
    for (const History::Row& row : rows.rows) told.rows.push_back(row_of(row));
    if constexpr (requires { told.events; }) {
      for (const History::Event& event : rows.events) told.events.push_back({event.time, event.kind, event.text});
    }
    return json_response(200, to_json(told));
  };
}

std::string no_node(const std::string& node) {
  return fmt::format("there is no node {}; GET /v1/nodes lists them", node);
}

bool is_alive(const Job& job) {
  return job.state() != JobState::kEnded && job.state() != JobState::kLost && job.state() != JobState::kFailed;
}

}  // namespace

FleetDesk::FleetDesk(EventLoop& loop, const JobBook& book, const Access& access, FleetOptions options)
    : loop_(loop),
      book_(book),
      access_(access),
      options_(std::move(options)),
      watch_(options_.nodes),
      controller_(options_.controller),
      history_(options_.history, tables()),
      timer_(loop.every(kPeriod, [this] { look(); })) {
  for (const Job* job : book_.jobs()) note(*job);  // as they come from the disk
}

WatchedNodes FleetDesk::nodes(bool for_administrator) const {
  WatchedNodes all = watch_.nodes();
  if (for_administrator) return all;
  for (WatchedNode& node : all.nodes) {
    for (WatchedGpu& gpu : node.gpus) gpu.lease.clear();
  }
  return all;
}

void FleetDesk::end_lease(const Request& request, const Reply& reply) {
  const std::string& node = request.parameters.at("node");
  const std::string& lease = request.parameters.at("lease");
  if (!options_.nodes.addresses.contains(node)) throw HttpError(404, no_node(node));
  if (!is_lease_id(lease)) {
    throw HttpError(404, fmt::format("node {} has no lease of this identifier; GET /v1/nodes lists them", node));
  }
  if (options_.log) {
    options_.log(fmt::format("{} ends lease {} of node {}", access_.party_of(request), lease.substr(0, 8), node));
  }
  watch_.end_lease(node, lease, [reply](const NodeWatch::Outcome& outcome) {
    if (!outcome.trouble.empty()) return reply.fail(HttpError(outcome.status, outcome.trouble));
    reply.send(empty_response());
  });
}

void FleetDesk::look() {
  const WatchedNodes nodes = this->nodes(access_.has_administrator());
  const FleetStatus all = fleet(nodes);
  keep(nodes, all);
  if (!streams_.empty()) tell(nodes, all);
}

// Each reading counts for the time since the one before, but not for longer than its node may be without an answer.
const FleetDesk::Reading& FleetDesk::read(Seconds now, const FleetStatus& all) {
  const Nanoseconds clock = monotonic_now();
  const Seconds elapsed =
      read_at_ == 0 ? Seconds() : std::min(to_seconds(clock - read_at_), options_.nodes.silent_after);
  read_at_ = clock;
  const Seconds second(std::floor(now.value()));
  // A second has one row: of two readings in it the row has both.
  if (second != reading_.second) reading_ = {second, std::nullopt, Seconds(), Seconds()};
  if (all.gpus == all.gpus_without_power || elapsed == Seconds()) return reading_;
  reading_.energy = reading_.energy.value_or(Joules()) + all.power * elapsed;
  reading_.time += elapsed;
  if (all.nodes_silent == 0 && all.gpus_without_power == 0) reading_.complete += elapsed;
  return reading_;
}

void FleetDesk::keep(const WatchedNodes& nodes, const FleetStatus& all) {
  const Seconds now(now_seconds());
  std::vector<History::Sample> samples;
  std::vector<HeldGpus> held;
  const std::shared_ptr<const ControllerWatch::Holders> holders = controller_.holders();
  for (const WatchedNode& node : nodes.nodes) {
    keep_notes(kNodes, node.node, node_notes_[node.node].look(node));
    if (node.silent) continue;
    samples.push_back({kNodes, node.node, figures_of(node)});
    held.push_back(held_gpus(node, now, *holders));
  }
  if (all.nodes > 0) {
    const Reading& reading = read(now, all);
    const std::optional<Watts> budget = controller_.budget();
    samples.push_back(
        {kFleet,
         kWholeFleet,
         {all.gpus > 0 ? std::optional(all.power.value()) : std::nullopt, static_cast<double>(all.gpus),
          static_cast<double>(all.gpus_leased), static_cast<double>(all.nodes_silent),
          static_cast<double>(all.jobs_running), reading.energy ? std::optional(reading.energy->value()) : std::nullopt,
          reading.time.value(), reading.complete.value(), budget ? std::optional(budget->value()) : std::nullopt}});
  }
  const std::map<std::string, LeasedGpus> leased = leased_gpus(nodes);
  std::map<std::string, JobNotes> notes;  // without those of jobs that are gone
  for (const Job* job : book_.jobs()) {
    const std::string source = source_of(*job);
    keep_notes(kJobs, source, job_notes_[source].look(*job));
    notes[source] = std::move(job_notes_[source]);
    if (!is_alive(*job)) continue;
    const auto known = leased.find(job->id());
    samples.push_back({kJobs, source, figures_of(*job, known == leased.end() ? nullptr : &known->second)});
    if (known == leased.end()) continue;
    for (const auto& [stage, power] : power_of_stages(*job, known->second)) {
      samples.push_back({kStages, source_of(*job, stage), {power.value()}});
    }
  }
  job_notes_ = std::move(notes);
  history_.add(now, std::move(samples), std::exchange(noted_, {}), std::move(held));
}

void FleetDesk::note(const Job& job) {
  const std::string source = source_of(job);
  keep_notes(kJobs, source, job_notes_[source].look(job));
}

void FleetDesk::keep_notes(std::size_t table, const std::string& source, std::vector<HistoryNote> notes) {
  for (HistoryNote& note : notes) noted_.push_back({table, source, note.kind, std::move(note.text)});
}

void FleetDesk::tell(const WatchedNodes& nodes, const FleetStatus& all) {
  emit("fleet", to_json(all));
  emit("power", to_json(power_now(nodes)));
  for (const WatchedNode& node : nodes.nodes) {
    const auto [before, is_new] = silent_.try_emplace(node.node, node.silent);
    if (!is_new && before->second == node.silent) continue;
    before->second = node.silent;
    emit("node", to_json(node));
  }
  std::map<std::string, std::string> now;
  for (const JobListing& one : listings()) {
    const nlohmann::ordered_json listing = to_json(one);
    const std::string& text = now[one.job] = dump_json(listing);
    if (const auto before = jobs_.find(one.job); before == jobs_.end() || before->second != text) emit("job", listing);
  }
  for (const auto& [id, listing] : jobs_) {
    if (!now.contains(id)) emit("deleted", to_json(JobDeleted{id, "the server does not know it any more"}));
  }
  jobs_ = std::move(now);
}

// Where there is no administrator's token everybody may listen: then as GET /v1/jobs tells a stranger.
std::vector<JobListing> FleetDesk::listings() const {
  std::vector<JobListing> all;
  const bool for_administrator = access_.has_administrator();
  for (const Job* job : book_.jobs()) {
    if (for_administrator || job->stored().kind != JobKind::kZeus) all.push_back(listing_of(*job, for_administrator));
  }
  return all;
}

void FleetDesk::subscribe(std::shared_ptr<EventStream> stream) {
  const WatchedNodes nodes = this->nodes(access_.has_administrator());
  const FleetStatus all = fleet(nodes);
  if (streams_.empty()) tell(nodes, all);  // to nobody: what has changed since there was a stream is no news
  stream->send("fleet", dump_json(to_json(all)));
  stream->send("power", dump_json(to_json(power_now(nodes))));
  for (const WatchedNode& node : nodes.nodes) stream->send("node", dump_json(to_json(node)));
  for (const JobListing& job : listings()) stream->send("job", dump_json(to_json(job)));
  streams_.push_back(std::move(stream));
}

void FleetDesk::emit(std::string_view name, const nlohmann::ordered_json& data) {
  const std::string text = dump_json(data);
  std::erase_if(streams_, [&](const auto& stream) { return !stream->send(name, text); });
}

FleetStatus FleetDesk::fleet(const WatchedNodes& nodes) const {
  FleetStatus all;
  all.price_per_kwh = options_.price_per_kwh;
  all.carbon_g_per_kwh = options_.carbon_g_per_kwh;
  for (const Job* job : book_.jobs()) {
    ++all.jobs;
    if (job->state() == JobState::kReady) ++all.jobs_running;
    const PromiseVerdict verdict = job->promise().known().verdict;
    if (verdict == PromiseVerdict::kKept) ++all.promises_kept;
    if (verdict == PromiseVerdict::kSlower || verdict == PromiseVerdict::kDearer) ++all.promises_missed;
    all.slow_ranks += std::ssize(job->found().all());
    const RankSavings savings = job->savings();
    all.compared += savings.energy;
    all.compared_at_maximum += savings.energy_at_maximum;
    all.compared_promised += job->promised_energy();
  }
  for (const WatchedNode& node : nodes.nodes) {
    ++all.nodes;
    if (node.silent) {
      ++all.nodes_silent;
      continue;
    }
    for (const WatchedGpu& gpu : node.gpus) {
      ++all.gpus;
      if (!gpu.holder.empty()) ++all.gpus_leased;
      if (gpu.health == GpuHealth::kUnwell || gpu.health == GpuHealth::kLost) ++all.gpus_unwell;
      if (gpu.health == GpuHealth::kRestoring) ++all.gpus_unrestored;
      if (gpu.cap) ++all.gpus_capped;
      if (gpu.power) all.power += *gpu.power;
      if (!gpu.power) ++all.gpus_without_power;
    }
  }
  return all;
}

FleetDesk::Stretch FleetDesk::stretch_of(const Request& request) {
  const double now = now_seconds();
  const double until = query_time(request, "until_s", now + 1.0);
  const double from = query_time(request, "from_s", std::max(until - kUsualPast, 0.0));
  const double longest = static_cast<double>(History::kMostRows) * length_of(HistoryStep::kHours).value();
  if (from > until) throw HttpError(400, "from_s is later than until_s");
  if (until - from > longest) {
    throw HttpError(400,
                    fmt::format("from_s to until_s may be {} s at most; ask for one part after the other", longest));
  }
  return {Seconds(from), Seconds(until), Seconds(now)};
}

template <class Found>
std::function<void(Found, std::exception_ptr)> FleetDesk::answering(const Reply& reply,
                                                                    std::function<Response(const Found&)> show) {
  return [this, reply, show = std::move(show)](Found found, const std::exception_ptr& error) {
    loop_.post([reply, show, found = std::move(found), error] {
      if (error) return reply.fail(error);
      reply.send(show(found));
    });
  };
}

void FleetDesk::answer_history(std::size_t table, const std::string& source, const Request& request, const Reply& reply,
                               std::function<Response(const History::Rows&)> show) {
  const Stretch stretch = stretch_of(request);
  history_.read(table, source, stretch.from, stretch.until, stretch.now, answering(reply, std::move(show)));
}

void FleetDesk::answer_energy(const Request& request, const Reply& reply) {
  const Stretch stretch = stretch_of(request);
  // What is to come would count as time without readings.
  const Seconds until = std::max(std::min(stretch.until, stretch.now), stretch.from);
  history_.total(kFleet, kWholeFleet, stretch.from, until, stretch.now,
                 answering<History::Total>(
                     reply, [](const History::Total& total) { return json_response(200, to_json(energy_of(total))); }));
}

void FleetDesk::answer_allocations(const Request& request, const Reply& reply) {
  const Stretch stretch = stretch_of(request);
  history_.read_allocations(
      stretch.from, stretch.until,
      answering<FleetAllocations>(reply, [](const FleetAllocations& all) { return json_response(200, to_json(all)); }));
}

void FleetDesk::add_routes(Router& router) {
  // The job of a request whose token has been checked.
  const auto allowed = [this](const Request& request) -> const Job& {
    const Job* job = book_.find_job(request.parameters.at("job"));
    if (job == nullptr) throw HttpError(404, fmt::format("there is no job {}", request.parameters.at("job")));
    access_.need_job(request, *job);
    return *job;
  };
  router.add({"GET", "/v1/nodes", Handler([this](const Request& request) {
                access_.need_administrator(request);
                return json_response(200, to_json(nodes(access_.is_administrator(request))));
              })});
  router.add(
      {"DELETE", "/v1/nodes/{node}/leases/{lease}", AsyncHandler([this](const Request& request, const Reply& reply) {
         access_.need_true_administrator(request);
         end_lease(request, reply);
       })});
  router.add({"GET", "/v1/fleet", Handler([this](const Request& request) {
                access_.need_administrator(request);
                return json_response(200, to_json(fleet(watch_.nodes())));
              })});
  router.add({"GET", "/v1/cluster", Handler([this](const Request& request) {
                access_.need_administrator(request);
                return controller_.response();
              })});
  router.add({"GET", "/v1/fleet/history", AsyncHandler([this](const Request& request, const Reply& reply) {
                access_.need_administrator(request);
                answer_history(kFleet, kWholeFleet, request, reply, showing(FleetHistory{}, fleet_row));
              })});
  router.add({"GET", "/v1/fleet/energy", AsyncHandler([this](const Request& request, const Reply& reply) {
                access_.need_administrator(request);
                answer_energy(request, reply);
              })});
  router.add({"GET", "/v1/fleet/allocations", AsyncHandler([this](const Request& request, const Reply& reply) {
                access_.need_administrator(request);
                answer_allocations(request, reply);
              })});
  router.add({"GET", "/v1/nodes/{node}/history", AsyncHandler([this](const Request& request, const Reply& reply) {
                access_.need_administrator(request);
                const std::string& node = request.parameters.at("node");
                if (!options_.nodes.addresses.contains(node)) throw HttpError(404, no_node(node));
                answer_history(kNodes, node, request, reply, showing(NodeHistory{node}, node_row));
              })});
  router.add(
      {"GET", "/v1/jobs/{job}/history", AsyncHandler([this, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         if (const auto stage = query_stage(request, job)) {
           return answer_history(kStages, source_of(job, *stage), request, reply,
                                 showing(JobHistory{job.id()}, stage_row));
         }
         answer_history(kJobs, source_of(job), request, reply, showing(JobHistory{job.id()}, job_row));
       })});
  router.add({"GET", "/v1/jobs/{job}/ranks", Handler([this, allowed](const Request& request) {
                return json_response(200, to_json(ranks_of(allowed(request), watch_.nodes())));
              })});
  router.add({"GET", "/v1/events", StreamHandler([this](const Request& request) {
                access_.need_administrator(request);
                if (streams_.size() >= options_.event_streams) {
                  throw HttpError(429,
                                  fmt::format("{} event streams are open, the most there may be", streams_.size()));
                }
                return [this](std::shared_ptr<EventStream> stream) { subscribe(std::move(stream)); };
              })});
}

}  // namespace flyball
