// The descriptions of what is told of nodes, of the fleet and of their past.
#include "wire/fleet_messages.h"

#include "base/record.h"
#include "base/utf8.h"

namespace flyball {
namespace {

constexpr const char* kFleetAnswer = "the server's answer";
constexpr const char* kAskedClock =
    "Mean of the highest SM clocks that its GPUs may have: what their leases ask for, or the highest there is.";

// What agents say is kept for long, and need not be bounded as they bound what their clients say.
std::string cut(std::string_view words) {
  constexpr std::size_t kLongestWords = 200;  // bytes; agents take no longer ones
  return std::string(cut_between_characters(words, kLongestWords));
}

}  // namespace

WatchedGpu watched(const GpuStatus& gpu) {
  WatchedGpu told;
  told.index = gpu.index;
  told.uuid = gpu.uuid;
  told.name = gpu.name;
  told.health = gpu.health;
  told.trouble = gpu.trouble;
  told.power = gpu.power;
  told.energy = gpu.energy;
  told.clock = gpu.sm_clock;
  told.clock_maximum = gpu.sm_clock_maximum;
  told.temperature_celsius = gpu.temperature_celsius;
  told.utilisation = gpu.utilisation;
  told.power_limit = gpu.power_limit;
  told.throttle_reasons = gpu.throttle_reasons;
  if (gpu.cap) told.cap = gpu.cap->power_limit;
  if (gpu.cap) told.cap_holder = gpu.cap->holder;
  if (!gpu.lease) return told;
  // It becomes a part of paths that are asked for with an administrator's token, whatever an agent says.
  if (is_lease_id(gpu.lease->id)) told.lease = gpu.lease->id;
  told.holder = cut(gpu.lease->holder.text());
  told.purpose = cut(gpu.lease->purpose);
  told.job = cut(gpu.lease->job);
  told.rank = gpu.lease->rank;
  told.leased_for = gpu.lease->age;
  const auto settings = gpu.lease->settings.find(gpu.index);
  if (settings != gpu.lease->settings.end() && settings->second.sm_clocks) {
    told.asked_clock = settings->second.sm_clocks->maximum;
  }
  return told;
}

GpuStatus status_of(const WatchedGpu& told) {
  GpuStatus gpu;
  gpu.index = told.index;
  gpu.uuid = told.uuid;
  gpu.name = told.name;
  gpu.health = told.health;
  gpu.trouble = told.trouble;
  gpu.power = told.power;
  gpu.energy = told.energy;
  gpu.sm_clock = told.clock;
  gpu.sm_clock_maximum = told.clock_maximum;
  gpu.temperature_celsius = told.temperature_celsius;
  gpu.utilisation = told.utilisation;
  gpu.power_limit = told.power_limit;
  gpu.throttle_reasons = told.throttle_reasons;
  if (told.cap) gpu.cap = Cap{*told.cap, told.cap_holder, Seconds()};
  if (told.holder.empty()) return gpu;
  gpu.lease.emplace();
  gpu.lease->id = told.lease;
  gpu.lease->holder.name = told.holder;
  gpu.lease->purpose = told.purpose;
  gpu.lease->job = told.job;
  gpu.lease->rank = told.rank;
  gpu.lease->age = told.leased_for.value_or(Seconds());
  gpu.lease->gpus = {told.index};
  if (told.asked_clock) gpu.lease->settings[told.index].sm_clocks = ClockBounds{Megahertz(), *told.asked_clock};
  return gpu;
}

Record<WatchedGpu> description_of(const WatchedGpu* /*type*/) {
  using R = WatchedGpu;
  return Record<R>::answer("WatchedGpu", kFleetAnswer,
                           "A GPU as its agent told it last. A reading is null where the device does not give it.")
      .field("index", &R::index, "The agent's number of the GPU.", {.needed = true})
      .field("uuid", &R::uuid, "The GPU's UUID; empty until the driver has opened the GPU.")
      .field("name", &R::name, "Name of the GPU's model.")
      .field("health", &R::health, "State of the GPU, as the agent tells it.")
      .field("trouble", &R::trouble, "What is wrong, in words; empty when all is well.")
      .field("power_w", &R::power, "Power that the GPU draws.")
      .field("energy_j", &R::energy, "Energy of the GPU since its driver was loaded.")
      .field("clock_mhz", &R::clock, "SM clock.")
      .field("clock_maximum_mhz", &R::clock_maximum, "The highest SM clock that can be set.")
      .field("asked_clock_mhz", &R::asked_clock,
             "The highest SM clock that the GPU's lease lets it have; null where it sets none.")
      .field("temperature_c", &R::temperature_celsius, "Temperature of the GPU, in degrees Celsius.")
      .field("utilisation", &R::utilisation, "Share of time in which a kernel ran, from 0 to 1.")
      .field("power_limit_w", &R::power_limit, "The power limit in force.")
      .field("throttle_reasons", &R::throttle_reasons, "Reasons why clocks are below what was asked for.")
      .field(
          "lease", &R::lease,
          "Identifier of the GPU's lease, with which an administrator ends it; empty where nobody has leased the GPU, "
          "and for readers who may not end it.")
      .field("holder", &R::holder, "Who holds the GPU's lease; empty where nobody does.")
      .field("purpose", &R::purpose, "What the lease is for, in its holder's words.")
      .field("job", &R::job, "The job whose training the lease is for; empty where it names none.")
      .field("rank", &R::rank, "Which of the job's ranks holds the lease, as it says itself; null: it does not say.")
      .field("leased_for_s", &R::leased_for,
             "Time since the lease was granted, by when the agent told it; null where there is none.")
      .field("cap_w", &R::cap, "The power limit that a holder who was lost has left; null where there is none.")
      .field("cap_holder", &R::cap_holder, "Who has left it; empty where there is none.");
}

Record<WatchedNode> description_of(const WatchedNode* /*type*/) {
  using R = WatchedNode;
  return Record<R>::answer("WatchedNode", kFleetAnswer, "A node whose agent the server asks.")
      .field("node", &R::node, "The node's name in the server's list of agents.", {.needed = true})
      .field("address", &R::address, "Address of the node's agent.")
      .field("silent", &R::silent, "Whether the agent does not answer; the GPUs are then as it told them last.",
             {.needed = true})
      .field("age_s", &R::age, "Age of the agent's last answer; null where there was none.")
      .field("trouble", &R::trouble, "Why the last question was not answered; empty where it was.")
      .field("version", &R::version, "Version of the agent.")
      .field("gpus", &R::gpus, "All GPUs of the node.");
}

Record<WatchedNodes> description_of(const WatchedNodes* /*type*/) {
  return Record<WatchedNodes>::answer("WatchedNodes", kFleetAnswer)
      .field("nodes", &WatchedNodes::nodes, "All nodes of the server's list, by name.");
}

Record<FleetStatus> description_of(const FleetStatus* /*type*/) {
  using R = FleetStatus;
  return Record<R>::answer("FleetStatus", kFleetAnswer, "All jobs and nodes together.")
      .field("jobs", &R::jobs, "Jobs that the server knows.")
      .field("jobs_running", &R::jobs_running, "Jobs with schedules whose ranks were heard lately.")
      .field("promises_kept", &R::promises_kept, "Jobs whose plan keeps its promise.")
      .field("promises_missed", &R::promises_missed, "Jobs whose plan is slower or dearer than promised.")
      .field("slow_ranks", &R::slow_ranks, "Ranks that compute slower than when they were profiled.")
      .field("nodes", &R::nodes, "Nodes whose agents the server asks.")
      .field("nodes_silent", &R::nodes_silent, "Nodes whose agents do not answer; nothing below counts their GPUs.")
      .field("gpus", &R::gpus, "GPUs of the other nodes.")
      .field("gpus_leased", &R::gpus_leased, "GPUs that somebody has leased.")
      .field("gpus_unwell", &R::gpus_unwell, "GPUs that hang or are lost.")
      .field(
          "gpus_unrestored", &R::gpus_unrestored,
          "GPUs whose lease has ended and whose clocks or limits are not yet as before it: off their default without "
          "a lease.")
      .field("gpus_capped", &R::gpus_capped, "GPUs whose power limit a holder who was lost has left low.")
      .field("gpus_without_power", &R::gpus_without_power, "GPUs that do not tell their power.")
      .field("power_w", &R::power, "Power of all GPUs that tell it.")
      .field("compared_energy_j", &R::compared,
             "Energy of all iterations that are compared with maximum clocks, of all jobs that the server knows.")
      .field("compared_energy_at_maximum_j", &R::compared_at_maximum, "What they would have taken at maximum clocks.")
      .field("compared_energy_promised_j", &R::compared_promised, "What they take as promised.")
      .field("price_per_kwh", &R::price_per_kwh,
             "Price of a kWh, in the currency of the server's operator; null where `--price` does not say.")
      .field("carbon_g_per_kwh", &R::carbon_g_per_kwh,
             "Grams of CO2 that a kWh sets free; null where `--carbon` does not say.");
}

Record<PowerNow> description_of(const PowerNow* /*type*/) {
  using R = PowerNow;
  return Record<R>::answer("PowerNow", kFleetAnswer,
                           "Event `power`. Nodes that are silent and jobs that no lease names are left out.")
      .field("time_s", &R::time, "Unix time.", {.needed = true})
      .field("nodes", &R::nodes, "What the GPUs of each node draw.", {.needed = true})
      .field("jobs", &R::jobs, "What the GPUs of each job draw.", {.needed = true});
}

Record<PowerNow::OfNode> description_of(const PowerNow::OfNode* /*type*/) {
  using R = PowerNow::OfNode;
  return Record<R>::answer("NodePower", kFleetAnswer)
      .field("node", &R::node, "The node's name.", {.needed = true})
      .field("power_w", &R::power, "Power of its GPUs.", {.needed = true});
}

Record<PowerNow::OfJob> description_of(const PowerNow::OfJob* /*type*/) {
  using R = PowerNow::OfJob;
  return Record<R>::answer("JobPower", kFleetAnswer)
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("gpus", &R::gpus, "GPUs whose lease names the job.")
      .field("power_w", &R::power, "Power of these GPUs.", {.needed = true});
}

Record<JobRankStatus> description_of(const JobRankStatus* /*type*/) {
  using R = JobRankStatus;
  return Record<R>::answer(
             "JobRank", kFleetAnswer,
             "A rank of a job and its GPU. What is told of the GPU is null where no lease names the rank, "
             "or the device does not give it.")
      .field("rank", &R::rank, "Number of the rank.", {.needed = true})
      .field("dp_rank", &R::dp_rank, "Its pipeline.")
      .field("pp_rank", &R::pp_rank, "Its stage.")
      .field("tp_rank", &R::tp_rank, "Its number among the ranks of the stage.")
      .field("profiled", &R::profiled, "Whether it has finished measuring.")
      .field("slowdown", &R::slowdown, "Its computing time over that of when it was profiled, as it has reported.")
      .field("iteration_time_s", &R::iteration_time,
             "Time of its latest iterations, a mean, as it has reported last; null: it has reported none.")
      .field("heard_s", &R::heard,
             "When the rank was last heard, in seconds since 1970 (UTC); null: not since the server has started.")
      .field("node", &R::node, "Node of the GPU whose lease names the rank; empty where none is known.")
      .field("gpu", &R::gpu, "The agent's number of that GPU.")
      .field("silent", &R::silent, "Whether the node does not answer; the rest is then as it told it last.")
      .field("power_w", &R::power, "Power that the GPU draws.")
      .field("clock_mhz", &R::clock, "SM clock.")
      .field("asked_clock_mhz", &R::asked_clock, "The highest SM clock that the lease lets it have.")
      .field("temperature_c", &R::temperature_celsius, "Temperature of the GPU, in degrees Celsius.")
      .field("throttle_reasons", &R::throttle_reasons, "Reasons why clocks are below what was asked for.");
}

Record<JobRanks> description_of(const JobRanks* /*type*/) {
  using R = JobRanks;
  return Record<R>::answer("JobRanks", kFleetAnswer, "Ranks of a job, and where they are.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("ranks_registered", &R::ranks_registered, "Number of ranks that have registered.")
      .field("ranks", &R::ranks, "The first 4096 of them, by their number.");
}

Record<GpuAllocation> description_of(const GpuAllocation* /*type*/) {
  using R = GpuAllocation;
  return Record<R>::answer("GpuAllocation", kFleetAnswer,
                           "A time in which one lease had a GPU, or, without a holder, in which it was free.")
      .field("node", &R::node, "Name of the GPU's node.", {.needed = true})
      .field("gpu", &R::gpu, "The agent's number of the GPU.", {.needed = true})
      .field("from_s", &R::from, "Unix time of the begin.", {.needed = true})
      .field("until_s", &R::until, "Unix time of the end or, where it has not ended, of the node's last answer.",
             {.needed = true})
      .field("ended", &R::ended, "Whether it has ended.")
      .field(
          "job", &R::job,
          "The job whose training the lease was for; of a cluster's job, what its controller calls it; empty: of none.")
      .field("rank", &R::rank, "Which of the job's ranks held the lease, as it said itself; null: it did not say.")
      .field("holder", &R::holder, "Who held the lease; empty where nobody did.");
}

Record<FleetAllocations> description_of(const FleetAllocations* /*type*/) {
  using R = FleetAllocations;
  return Record<R>::answer("FleetAllocations", kFleetAnswer,
                           "Who had which GPU when. What no allocation covers is not known.")
      .field("complete_from_s", &R::complete_from,
             "Unix time. Of allocations that ended, the newest 20,000 are told, and fewer where these take more than 6 "
             "MB; "
             "older ones ended no later than this time.")
      .field("allocations", &R::allocations, "Those that last first, then those that ended, the latest first.");
}

Record<WatchedController> description_of(const WatchedController* /*type*/) {
  using R = WatchedController;
  return Record<R>::answer("WatchedController", kFleetAnswer, "A cluster as its controller told it last.")
      .field("address", &R::address, "Address of the controller; empty where the server asks none (`--controller`).",
             {.needed = true})
      .field("silent", &R::silent, "Whether it does not answer; its status is then what it told last.",
             {.needed = true})
      .field("age_s", &R::age, "Age of its last answer; null where there was none.")
      .field("trouble", &R::trouble, "Why the last question was not answered; empty where it was.")
      .field("status", &R::status, "What it told last; null: nothing yet.");
}

Record<FleetHistoryRow> description_of(const FleetHistoryRow* /*type*/) {
  using R = FleetHistoryRow;
  return Record<R>::answer("FleetHistoryRow", kFleetAnswer,
                           "Means over the row's step, and of silent nodes the highest number. GPUs are those of nodes "
                           "that answered.")
      .field("time_s", &R::time, "Unix time at which the row begins.", {.needed = true})
      .field("power_w", &R::power, "Power of all GPUs.")
      .field("gpus", &R::gpus, "Number of GPUs.")
      .field("gpus_leased", &R::gpus_leased, "GPUs that somebody had leased.")
      .field("nodes_silent", &R::nodes_silent, "Nodes whose agents did not answer.")
      .field("jobs_running", &R::jobs_running, "Jobs with schedules whose ranks were heard.")
      .field("budget_w", &R::budget,
             "The power budget of all GPUs of the cluster, as its controller told it; null where none was heard.");
}

Record<FleetHistory> description_of(const FleetHistory* /*type*/) {
  using R = FleetHistory;
  return Record<R>::answer("FleetHistory", kFleetAnswer, "The past of all nodes and jobs together.")
      .field("step", &R::step, "Time from one row to the next.")
      .field("rows", &R::rows, "Rows, the oldest first.");
}

Record<FleetEnergy> description_of(const FleetEnergy* /*type*/) {
  using R = FleetEnergy;
  return Record<R>::answer("FleetEnergy", kFleetAnswer,
                           "What all GPUs took in a stretch of time, by the power that was read each second.")
      .field(
          "from_s", &R::from,
          "Unix time of the begin, which is that of a whole minute where seconds are not kept any more, or of a whole "
          "hour.",
          {.needed = true})
      .field("until_s", &R::until, "Unix time of the end, likewise; not later than now.", {.needed = true})
      .field("energy_j", &R::energy,
             "Energy of the GPUs whose power was read, while it was; null where none was read. Nothing is added for "
             "the rest.")
      .field("read_s", &R::read, "Time for which the power of some GPUs was read.", {.needed = true})
      .field("complete_s", &R::complete, "Of that, the time in which every node answered and every GPU told its power.",
             {.needed = true});
}

Record<NodeHistoryRow> description_of(const NodeHistoryRow* /*type*/) {
  using R = NodeHistoryRow;
  return Record<R>::answer("NodeHistoryRow", kFleetAnswer,
                           "Means over the row's step; null where nothing was known. Silent times have no row.")
      .field("time_s", &R::time, "Unix time at which the row begins.", {.needed = true})
      .field("power_w", &R::power, "Power of all GPUs of the node.")
      .field("clock_mhz", &R::clock, "Mean SM clock of its GPUs.")
      .field("asked_clock_mhz", &R::asked_clock, kAskedClock)
      .field("temperature_c", &R::temperature_celsius, "Highest temperature of its GPUs.")
      .field("gpus_leased", &R::gpus_leased, "GPUs that somebody had leased.")
      .field("gpus_throttled", &R::gpus_throttled,
             "GPUs whose clocks were held back by their power limit, their temperature or their board.");
}

Record<NodeHistory> description_of(const NodeHistory* /*type*/) {
  using R = NodeHistory;
  return Record<R>::answer("NodeHistory", kFleetAnswer, "A node's past.")
      .field("node", &R::node, "Name of the node.", {.needed = true})
      .field("step", &R::step, "Time from one row to the next.")
      .field("rows", &R::rows, "Rows, the oldest first.")
      .field("events", &R::events,
             "What happened in that time, the oldest first; the newest 1000 of the node are kept.");
}

Record<JobHistoryRow> description_of(const JobHistoryRow* /*type*/) {
  using R = JobHistoryRow;
  return Record<R>::answer("JobHistoryRow", kFleetAnswer,
                           "Means over the row's step, and of energies, ranks and versions the highest; null where "
                           "nothing was known.")
      .field("time_s", &R::time, "Unix time at which the row begins.", {.needed = true})
      .field("power_w", &R::power, "Power of all GPUs whose lease names the job, of nodes that the server asks.")
      .field("iteration_s", &R::iteration, "Time of an iteration, as the ranks measured it.")
      .field("promised_iteration_s", &R::promised, "Time of an iteration that was promised.")
      .field("iteration_at_maximum_s", &R::at_maximum, "Time of an iteration at maximum clocks.")
      .field("saved_j", &R::saved, "Energy saved so far against maximum clocks.")
      .field("promised_saved_j", &R::promised_saved, "Energy that should have been saved so far, as promised.")
      .field("slow_ranks", &R::slow_ranks, "Ranks that computed slower than when they were profiled.")
      .field("version", &R::version, "Version of the schedules in force.")
      .field("clock_mhz", &R::clock, "Mean SM clock of the GPUs whose power this is.")
      .field("asked_clock_mhz", &R::asked_clock, kAskedClock);
}

Record<HistoryEvent> description_of(const HistoryEvent* /*type*/) {
  using R = HistoryEvent;
  return Record<R>::answer("HistoryEvent", kFleetAnswer, "Something that happened to a node or a job.")
      .field("time_s", &R::time, "Unix time.", {.needed = true})
      .field("event", &R::event,
             "What it is about: of a node state or gpu, of a job state, schedule, promise or straggler.",
             {.needed = true})
      .field("text", &R::text, "What happened, for people.");
}

Record<JobHistory> description_of(const JobHistory* /*type*/) {
  using R = JobHistory;
  return Record<R>::answer("JobHistory", kFleetAnswer, "A job's past.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("step", &R::step, "Time from one row to the next.")
      .field("rows", &R::rows, "Rows, the oldest first.")
      .field("events", &R::events,
             "What happened in that time, the oldest first; the newest 1000 of the job are kept.");
}

}  // namespace flyball
