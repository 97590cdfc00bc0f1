// What each pipeline of a job runs, and for how long all wait. T' is what the slowest takes at its base point: by its
// own measurements, or by how slow it is known to be besides. All others take the plan of their own frontier at T'.
#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "server/job.h"

namespace flyball {
namespace {

constexpr std::size_t kMostPipelinesShown = 16;  // of one plan in a status

}  // namespace

// A pipeline that is slow by some degree must plan for T' over its own degree, or it would be later still; for the
// slowest that is its base point. What is outside of the job, or has not registered, makes everybody slow.
Job::Runs Job::runs() const {
  const Seconds normal = plan_->common_time();
  const std::map<int, FoundPipeline> slow = found_pipelines();
  const std::vector<double> degrees = degrees_of_pipelines(slow);
  std::vector<double> paces;  // what each takes at its base point, over the usual iteration of all
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    paces.push_back(degrees[i] * (plan_->of_pipeline(static_cast<int>(i)).base_time() / normal));
  }
  double slowest = *std::max_element(paces.begin(), paces.end());
  for (const auto& [id, straggler] : stragglers_) {
    const auto* rank = std::get_if<int>(&id);
    if (rank == nullptr || ranks_.count(*rank) == 0) slowest = std::max(slowest, straggler.degree);
  }
  Runs all{{}, std::vector<std::vector<int>>(degrees.size()), normal * slowest};
  for (const auto& [number, pipeline] : slow) {
    if (!pipeline.announced) all.raised[static_cast<std::size_t>(number)] = pipeline.slowed.raised;
  }
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    const JobPlan& plan = plan_->of_pipeline(static_cast<int>(i));
    const bool waits = slowest > paces[i];
    all.of_pipelines.push_back(plan.run_for(waits ? normal * (slowest / degrees[i]) : Seconds()));
  }
  return all;
}

Job::RunsByPlan Job::by_plan(const Runs& runs) const {
  std::map<const JobPlan*, std::set<JobPlan::Run>> distinct;
  for (std::size_t i = 0; i < runs.of_pipelines.size(); ++i) {
    distinct[&plan_->of_pipeline(static_cast<int>(i))].insert(runs.of_pipelines[i]);
  }
  RunsByPlan all;
  for (const auto& [plan, of_plan] : distinct) all[plan] = {of_plan.begin(), of_plan.end()};
  return all;
}

Job::RunsByPlan Job::unprepared_runs() const {
  RunsByPlan missing = by_plan(runs());
  for (auto& [plan, runs] : missing) {
    std::erase_if(runs, [made = plan](const JobPlan::Run& run) {
      if (made->is_prepared_at_once(run)) made->prepare(run);
      return made->is_prepared(run);
    });
  }
  std::erase_if(missing, [](const auto& of_plan) { return of_plan.second.empty(); });
  return missing;
}

std::vector<PipelinePlan> Job::pipeline_plans() const {
  std::vector<PipelinePlan> plans;
  if (!current_) return plans;
  std::map<const Deployment::Texts*, std::size_t> places;
  for (std::size_t i = 0; i < current_->pipelines.size(); ++i) {
    const Deployment::Pipeline& pipeline = current_->pipelines[i];
    const auto [place, is_new] = places.emplace(pipeline.texts.get(), plans.size());
    if (is_new) {
      plans.push_back({{},
                       0,
                       current_->plan->of_pipeline(static_cast<int>(i)).base_time(),
                       pipeline.texts->own_time,
                       pipeline.waited_for,
                       pipeline.texts->own_energy});
    }
    PipelinePlan& plan = plans[place->second];
    if (plan.pipelines.size() < kMostPipelinesShown) plan.pipelines.push_back(static_cast<int>(i));
    ++plan.count;
  }
  if (plans.size() == 1) plans.clear();
  return plans;
}

}  // namespace flyball
