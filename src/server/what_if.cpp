// The request says what to plan, which is read in the loop's thread; profiles are parsed and planned in a planner's.
#include "server/what_if.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/record.h"
#include "net/json_response.h"
#include "plan/plan_set.h"
#include "plan/planning.h"
#include "server/job_plan.h"
#include "wire/what_if_messages.h"

namespace flyball {
namespace {

constexpr std::chrono::seconds kLongest{60};
constexpr std::int64_t kMostOperations = 30'000;  // Perseus takes some 0.2 ms for each, and joint three times as long
// A page has room for so many operations of all plans together: some 2 MB.
constexpr std::size_t kMostPlanned = 1'500'000;

// What is planned.
struct Asked {
  WhatIfRequest request;
  std::shared_ptr<const JobPlan> job;  // whose measurements are taken; null: the request's profile
};

PipelineSpec pipeline_of(const Asked& asked, const Profile& profile) {
  const WhatIfRequest& request = asked.request;
  PipelineSpec spec = asked.job ? asked.job->pipeline() : PipelineSpec{};
  if (!request.schedule.empty()) spec.schedule = parse_schedule(request.schedule);
  if (request.microbatches > 0) spec.microbatches = request.microbatches;
  if (request.chunks > 0) spec.chunks = request.chunks;
  if (!request.blocking_power.empty()) spec.blocking_power = request.blocking_power;
  if (lacks_weight_share(spec, profile)) spec.split_backward = kUsualWeightShare;
  JobRequest size;
  size.stages = profile.stages;
  size.microbatches = spec.microbatches;
  size.chunks = spec.chunks;
  if (const std::int64_t operations = operations_of(size); operations > kMostOperations) {
    throw UsageError(
        fmt::format("an iteration of {} stages, {} microbatches and {} chunks may have {} operations; "
                    "ask for {} at most, or use flyball plan",
                    size.stages, size.microbatches, size.chunks, operations, kMostOperations));
  }
  return spec;
}

std::vector<std::string> planners_of(const WhatIfRequest& request) {
  return planners_named(request.planner.empty() ? kMainPlanner : request.planner);
}

// `goes_on` is asked several times a second.
std::string plan_asked(const Asked& asked, const std::function<bool()>& goes_on) {
  const Profile profile = asked.job ? asked.job->profile() : read_profile("the profile", asked.request.profile);
  const PipelineSpec spec = pipeline_of(asked, profile);
  const ComputationDag dag = build_dag(spec, profile);
  PlanProblem problem = make_problem(dag, spec.blocking_powers(dag.stages(), profile), std::nullopt, CostModel::kHull,
                                     asked.job ? asked.job->noise() : 0.0, spec.memory_limit);
  problem.threads = 1;
  PlanningRequest planning;
  planning.planners = planners_of(asked.request);
  const PlanningResult result = plan_as_asked(problem, planning, [&](double /*share*/) { return goes_on(); });
  if (result.runs.empty()) {
    throw HttpError(503,
                    fmt::format("{} has made no plan of this in {} s", planning.planners.front(), kLongest.count()));
  }
  PlanSet set;
  set.blocking = problem.blocking;
  for (std::size_t k = result.runs.size(); k < planning.planners.size(); ++k) {
    set.not_planned.push_back(planning.planners[k]);
  }
  for (const PlannerRun& run : result.runs) {
    set.curves.push_back(
        {run.summary.planner, &run.result.dag_of(problem), &run.result.frontier, run.summary.selected_point});
  }
  const ClockPlan maximum = max_clock_plan(problem);
  const std::vector<Nanoseconds> durations = plan_durations(dag, maximum);
  set.iterations = {
      {"all-maximum clocks", result.runs.front().summary.baseline.energy, Joules(0), &dag, &maximum, durations}};
  return plan_set_json(set, kMostPlanned);
}

}  // namespace

struct WhatIf::AtWork {
  std::atomic<bool> stopping{false};
  std::map<std::uint64_t, Reply> waiting;  // by the number of the request; this and what follows in the loop's thread
  std::uint64_t last = 0;
  std::map<std::string, std::size_t> of_party;
};

WhatIf::WhatIf(JobBook& book, const Access& access)
    : book_(book), access_(access), at_work_(std::make_shared<AtWork>()) {}

void WhatIf::stop() {
  at_work_->stopping = true;
  for (const auto& [number, reply] : at_work_->waiting) reply.fail(HttpError(503, "the server is stopping"));
}

void WhatIf::add_routes(Router& router) {
  router.add({"POST", "/v1/what-if",
              AsyncHandler([this](const Request& request, const Reply& reply) { answer(request, reply); })});
}

void WhatIf::answer(const Request& request, const Reply& reply) {
  const auto asked = std::make_shared<Asked>(Asked{read_message<WhatIfRequest>(json_body(request)), nullptr});
  if (asked->request.job.empty()) {
    access_.need_registration(request);
  } else {
    const Job& job = book_.job(asked->request.job);
    access_.need_job(request, job);
    asked->job = job.plan();
    if (!asked->job) throw HttpError(409, fmt::format("job {} has no plan yet", job.id()));
  }
  const std::string party = access_.party_of(request);
  const auto known = at_work_->of_party.find(party);
  const std::size_t of_party = known == at_work_->of_party.end() ? 0 : known->second;
  if (at_work_->waiting.size() >= kMostAtOnce || of_party >= kMostOfParty) {
    throw HttpError(503, "as much is being planned as this server does at once; ask again in a few seconds", {},
                    {{"Retry-After", "5"}});
  }
  const std::uint64_t number = ++at_work_->last;
  at_work_->waiting.emplace(number, reply);
  at_work_->of_party[party] = of_party + 1;
  const auto made = std::make_shared<std::string>();
  // As if each took as long as it may: other work comes first, and the thread for short plans is left to jobs.
  book_.run_beside(
      Seconds(static_cast<double>(kLongest.count())),
      [asked, made, reply, at_work = at_work_] {
        const auto until = std::chrono::steady_clock::now() + kLongest;
        *made = plan_asked(*asked, [&] {
          return std::chrono::steady_clock::now() < until && !reply.abandoned() && !at_work->stopping;
        });
      },
      [at_work = at_work_, number, party, made, reply](const std::exception_ptr& error) {
        at_work->waiting.erase(number);
        if (--at_work->of_party[party] == 0) at_work->of_party.erase(party);
        if (error) return reply.fail(error);
        reply.send(text_response("application/json", std::move(*made)));
      });
}

}  // namespace flyball
