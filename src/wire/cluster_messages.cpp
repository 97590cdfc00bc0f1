// The descriptions of the cluster controller's messages.
#include "wire/cluster_messages.h"

#include "base/record.h"

namespace flyball {
namespace {

constexpr const char* kAnswer = "the controller's answer";
constexpr double kMostIterations = 1e15;
constexpr double kMostGpus = 65'536;
constexpr double kMostWatts = 1e9;
constexpr FieldRules kPower = {.minimum = -kMostWatts, .maximum = kMostWatts};
constexpr FieldRules kTime = {.minimum = 0, .maximum = 1e11};  // Unix time

}  // namespace

Record<ElasticReport> description_of(const ElasticReport* /*type*/) {
  using R = ElasticReport;
  return Record<R>::request("ElasticReport", "How far an elastic job is.")
      .field("iteration", &R::iteration, "Iterations that are done.",
             {.needed = true, .minimum = 0, .maximum = kMostIterations})
      .field("iterations", &R::iterations, "Iterations in all; 0: as many as the job was submitted with.",
             {.minimum = 0, .maximum = kMostIterations})
      .field("step_s", &R::step, "Time of an iteration, as last measured; 0: not known yet.",
             {.minimum = 0, .maximum = 1e6})
      .field("gpus", &R::gpus, "GPUs on which the job runs.", {.needed = true, .minimum = 1, .maximum = kMostGpus});
}

Record<ElasticAnswer> description_of(const ElasticAnswer* /*type*/) {
  using R = ElasticAnswer;
  return Record<R>::answer("ElasticAnswer", kAnswer)
      .field("stop", &R::stop,
             "Whether the job is to write a checkpoint and end with status 0. It is then put back into the queue and "
             "started again with other GPUs.",
             {.needed = true})
      .field(
          "keeps", &R::keeps,
          "Only beside stop, and only of a job that has said that it shrinks: the nodes with which it is to go on in "
          "place of ending, the one of its script among them. A report with their number of GPUs says that it does; "
          "the others are taken from it then.",
          {.left_out = true});
}

Record<BudgetOrder> description_of(const BudgetOrder* /*type*/) {
  using R = BudgetOrder;
  return Record<R>::request("BudgetOrder", "The power budget of all GPUs of the cluster.")
      .field("budget_w", &R::budget,
             "The budget. It ends the periods that were ordered before, unless it is for a "
             "while; 0: periods are ordered.",
             {.minimum = 0, .maximum = kMostWatts})
      .field("until_s", &R::until, "Unix time from which the budget before this one counts again; missing: never.",
             kTime)
      .field("periods", &R::periods,
             "Budgets for periods of time, in their order, without overlap, in place of those that were ordered "
             "before. Between and after them, what was ordered for good counts; a budget for a while counts first.",
             {.most = kMostBudgetPeriods})
      .check([](const JsonObject& object, R& order) {
        check_periods(object, "periods", order.periods);
        if (order.periods.empty() == (order.budget < Watts(1.0))) {
          object.refuse("budget_w", order.periods.empty() ? "is missing or below 1" : "is beside periods",
                        "order either a budget of 1 W or more, or periods");
        }
        if (order.until && !order.periods.empty()) {
          object.refuse("until_s", "is beside periods", "leave it out; each period has its end");
        }
      });
}

Record<ClusterJobPlace> description_of(const ClusterJobPlace* /*type*/) {
  using R = ClusterJobPlace;
  return Record<R>::answer("ClusterJobPlace", "Of one node, the GPUs that a job has there.")
      .field("node", &R::node, "The node's name.", {.needed = true})
      .field("gpus", &R::gpus, "Their numbers on the node; empty where the cluster engine does not tell them.");
}

Record<ClusterJobStatus> description_of(const ClusterJobStatus* /*type*/) {
  using R = ClusterJobStatus;
  return Record<R>::answer("ClusterJob", kAnswer)
      .field("job", &R::job, "The cluster engine's number of the job.", {.needed = true})
      .field("user", &R::user, "Whose job it is.")
      .field("kind", &R::kind, "What it trains, as it was submitted.")
      .field("state", &R::state, "waiting, running, stopping, shrinking, starting, or left alone.")
      .field("nodes", &R::nodes, "Nodes on which it runs.")
      .field("places", &R::places, "The same nodes with the GPUs that it has there.")
      .field("gpus", &R::gpus, "GPUs that it has.")
      .field("to_gpus", &R::to_gpus, "GPUs that it will have when what is under way is done.")
      .field("clock_mhz", &R::clock, "Clock of its GPUs; 0: none is set.")
      .field("power_w", &R::power, "Power with which it counts against the budget.", kPower)
      .field("expected_w", &R::expected, "Power that is expected of its GPUs at their clock; null: no agent is asked.",
             kPower)
      .field("measured_w", &R::measured, "Power that its GPUs' meters show; null: not known.", kPower)
      .field("energy_j", &R::energy,
             "Energy that its GPUs' meters have shown since this controller first saw it run; 0: not known.")
      .field("pipeline", &R::pipeline,
             "Whether it is a pipeline that keeps its GPUs and is moved along its frontier at the planning server.")
      .field("iteration", &R::iteration,
             "Iterations that it has reported; of a pipeline, what its frontier makes of its "
             "time.")
      .field("iterations", &R::iterations, "Iterations in all.")
      .field("step_s", &R::step,
             "Time of an iteration, as it last reported, or of a pipeline by its plan; 0: it did not.")
      .field("why", &R::why, "Why it is so, in words for people.");
}

Record<ClusterNodeStatus> description_of(const ClusterNodeStatus* /*type*/) {
  using R = ClusterNodeStatus;
  return Record<R>::answer("ClusterNode", kAnswer)
      .field("node", &R::node, "The node's name.", {.needed = true})
      .field("state", &R::state, "Its state, in the cluster engine's words.")
      .field("gpus", &R::gpus, "GPUs that it has.")
      .field("gpus_used", &R::gpus_used, "GPUs that jobs have.")
      .field("ours", &R::ours, "Whether elastic jobs may run on it: it is up, and no other job has GPUs of it.")
      .field("agent", &R::agent, "Address of its agent; null: none is asked.", {.empty_is_null = true})
      .field("agent_trouble", &R::agent_trouble, "What went wrong last with the agent; null: nothing.",
             {.empty_is_null = true})
      .field("power_w", &R::power, "Power that its GPUs' meters show; null: the agent is silent.", kPower)
      .field("age_s", &R::age, "Time since the agent's last answer; null: there was none.")
      .field("off", &R::off, "Whether it is switched off, so that its GPUs count as drawing nothing.")
      .field("wake_s", &R::wake, "Time from the order to wake until it is there; 0: not measured.")
      .field("wakes_measured", &R::wakes, "How many times that is the mean of.")
      .field("wakes_failed", &R::wakes_failed, "How often it did not come back, and the cluster engine gave it up.");
}

Record<ClusterKindStatus> description_of(const ClusterKindStatus* /*type*/) {
  using R = ClusterKindStatus;
  return Record<R>::answer("ClusterKind", kAnswer)
      .field("kind", &R::kind, "What jobs of the kind train, as they were submitted.", {.needed = true})
      .field("restart_s", &R::restart, "Time that a job of it loses when its GPUs change, as decisions count it.")
      .field("restarts_measured", &R::measured,
             "How many measured changes that is the mean of; 0: it is what the controller was told (--restart).")
      .field("stop_s", &R::stop,
             "Time from the order to give up its GPUs until the cluster engine shows a job of it without; 0: not "
             "measured.")
      .field("stops_measured", &R::stops, "How many times that is the mean of.")
      .field("changeover_s", &R::changeover,
             "Time from the order to start a job of it on GPUs that are in use until it could be started; 0: not "
             "measured.")
      .field("changeovers_measured", &R::changeovers, "How many times that is the mean of.")
      .field("shrink_s", &R::shrink,
             "Time that a job of it loses when it gives nodes back while it runs; 0: not measured.")
      .field("shrinks_measured", &R::shrinks, "How many times that is the mean of.");
}

Record<ClusterDecision> description_of(const ClusterDecision* /*type*/) {
  using R = ClusterDecision;
  return Record<R>::answer("ClusterDecision", kAnswer, "What was decided for a job, and why.")
      .field("time_s", &R::time, "Unix time.", {.needed = true, .minimum = kTime.minimum, .maximum = kTime.maximum})
      .field("job", &R::job, "The job's number.", {.needed = true})
      .field("change", &R::change, "What is to change, for people.")
      .field("cause", &R::cause, "What had happened, for people.")
      .field("from_gpus", &R::from_gpus, "GPUs that the job had.")
      .field("to_gpus", &R::to_gpus, "GPUs that it is to have; 0: it is to stop, and to wait.")
      .field("clock_mhz", &R::clock, "The highest clock that they may have; null: nobody sets it, or there are none.")
      .field("planned_w", &R::planned, "Power with which all jobs that the scheduler has count as it was decided.",
             kPower)
      .field("limit_w", &R::limit, "The part of the budget that was left for these jobs.", kPower)
      .field("budget_w", &R::budget, "Power budget of all GPUs.", kPower);
}

Record<ClusterRunStatus> description_of(const ClusterRunStatus* /*type*/) {
  using R = ClusterRunStatus;
  return Record<R>::answer("ClusterStatus", kAnswer)
      .field("policy", &R::policy, "The policy that decides.")
      .field("mode", &R::mode, "acts, or observes.")
      .field("partition", &R::partition, "The partition whose nodes and jobs it has; null: all.",
             {.empty_is_null = true})
      .field("budget_w", &R::budget, "Power budget of all GPUs.", kPower)
      .field("until_s", &R::until, "Unix time until which it counts; null: for good.", kTime)
      .field("next_w", &R::next, "Power budget from then on; 0: there is no other.", kPower)
      .field("others_w", &R::others, "The part of the budget that GPUs without elastic jobs take.", kPower)
      .field("limit_w", &R::limit, "The part that is left for elastic jobs.", kPower)
      .field("power_w", &R::power, "Power with which elastic jobs count.", kPower)
      .field("decisions", &R::decisions, "Decisions of the policy since the controller started.")
      .field("cycle_s", &R::cycle, "Time that the last look at the cluster took, with all that followed.")
      .field("trouble", &R::trouble, "Why the cluster engine could not be asked; null: it could.",
             {.empty_is_null = true})
      .field("jobs", &R::jobs, "The elastic jobs.")
      .field("kinds", &R::kinds, "Kinds of elastic jobs that were seen, and what a change of GPUs costs them.")
      .field("nodes", &R::nodes, "The nodes with GPUs.")
      .field("last_decisions", &R::last_decisions,
             "What was decided for jobs since the controller started, the newest first; 100 at most.");
}

}  // namespace flyball
