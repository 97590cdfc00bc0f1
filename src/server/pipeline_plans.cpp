// Plans of pipelines that are not alike. Each group is planned from its own measurements, for the time that the slowest
// group takes: at that time the others find their plan in their own frontier, as for a straggler.
#include <algorithm>
#include <set>
#include <utility>

#include "plan/summary.h"
#include "server/job_plan.h"
#include "server/pipeline_groups.h"

namespace flyball {

void JobPlan::plan_pipelines(const std::shared_ptr<JobPlan>& plan, Making& making, const std::vector<int>& group_of) {
  const int groups = 1 + *std::max_element(group_of.begin(), group_of.end());
  PaceRequest pace;
  pace.target_time = making.request.target_time;
  std::vector<std::shared_ptr<Basis>> bases;
  Nanoseconds slowest = 0;
  for (int group = 0; group < groups; ++group) {
    bases.push_back(std::make_shared<Basis>(making, ranks_of_group(making.ranks, group_of, group)));
    slowest = std::max(slowest, to_nanoseconds(allowed_time(bases.back()->problem, pace)));
  }
  std::vector<std::shared_ptr<JobPlan>> plans;
  Seconds common;
  for (const auto& basis : bases) {
    basis->problem.keep_flows = false;
    basis->problem.focus.push_back(slowest);
    making.begin += making.part;
    std::vector<TighterPlan> none;
    std::shared_ptr<JobPlan> own = make_one(making, basis, plan, none);
    if (!own || making.over) return;
    own->from_.reset();  // which holds this one
    common = std::max(common, own->base_time());
    plans.push_back(std::move(own));
  }
  for (const auto& own : plans) {
    own->common_ = common;
    own->prepare(own->run_for(common), [&](double) { return making.watch(1.0); });
    if (making.cancelled || making.over) return;
  }
  for (const int group : group_of) plan->own_.push_back(plans[static_cast<std::size_t>(group)]);
  plan->plans_ = plans.size();
  plan->common_ = common;
}

Seconds JobPlan::max_clock_time_of_all() const {
  Seconds longest = own_.empty() ? max_clock_time_in_order_ : Seconds();
  for (const auto& own : own_) longest = std::max(longest, own->max_clock_time_in_order_);
  return longest;
}

}  // namespace flyball
