// A decision is carried out in the order: GPUs are taken, speeds are changed, GPUs are given to large jobs first, jobs
// start; and jobs move where that empties a node.
#include "cluster/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace flyball {
namespace {

void insert_sorted(std::vector<int>& list, int value) {
  const auto place = std::lower_bound(list.begin(), list.end(), value);
  if (place == list.end() || *place != value) list.insert(place, value);
}

Placement empty_cluster(PlacementRule rule, const ClusterSpec& spec) {
  try {
    return {rule, spec.nodes, spec.gpus_per_node};
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

Scheduler::Scheduler(const ClusterSpec& spec, Watts limit, std::string policy, const PolicyOptions& options,
                     SchedulerHost& host)
    : host_(&host),
      policy_name_(std::move(policy)),
      options_(options),
      policy_(make_policy(policy_name_, options_)),
      traits_(policy_->traits()),
      placement_(empty_cluster(traits_.placement, spec)) {
  if (traits_.jobs_per_gpu < 1 || traits_.jobs_per_gpu > 2 ||
      (traits_.jobs_per_gpu > 1 && (traits_.profiles || traits_.placement != PlacementRule::kAnywhere))) {
    throw Error(fmt::format("policy {} cannot have {} jobs on a GPU", policy_name_, traits_.jobs_per_gpu));
  }
  state_.spec = spec;
  state_.power_limit = limit;
  state_.free_gpus = spec.gpus();
  state_.nodes_on = spec.nodes;
  if (!spec.node_shutdown) return;
  for (int node = 0; node < spec.nodes; ++node) set_powered(node, false);
}

void Scheduler::begin(const Knowledge& knowledge) {
  state_.profiling = knowledge.profiles;
  if (knowledge.models) belief_.emplace(state_.spec, state_.kinds);
  const int kinds = static_cast<int>(state_.kinds.size());
  for (int kind = 0; kind < kinds; ++kind) believe_in(kind);
  for (int kind = 0; knowledge.measured_beforehand && kind < kinds; ++kind) {
    const ClusterJobKind& one = state_.kinds[at(kind)];
    if (!one.elastic) continue;
    for (int size = 0; at(size) < one.sizes.size(); ++size) {
      ProfiledSpeeds what{{kind, size, packed_nodes(state_.spec, one.sizes[at(size)])}, {}};
      for (int speed = 0; at(speed) < one.speeds; ++speed) what.speeds.push_back(speed);
      (void)belief_->learn(what, knowledge.measured_beforehand, state_.believed);
    }
  }
  power_book_.emplace(state_, belief_ ? kUnseenReserve : 0.0);
  for (int kind = 0; kind < kinds; ++kind) power_book_->add_kind(kind);
}

int Scheduler::add_kind(ClusterJobKind kind, CostSheet costs) {
  const int index = static_cast<int>(state_.kinds.size());
  state_.kinds.push_back(std::move(kind));
  state_.believed.push_back(std::move(costs));
  if (!power_book_) return index;
  believe_in(index);
  power_book_->add_kind(index);
  happened_.kinds_changed.push_back(index);
  return index;
}

int Scheduler::add_job(const ClusterJob& job) {
  state_.jobs.push_back(job);
  return static_cast<int>(state_.jobs.size()) - 1;
}

void Scheduler::believe_in(int kind) {
  if (belief_) belief_->add_kind(kind, state_.believed[at(kind)]);
  if (state_.profiling && traits_.profiles_kinds) state_.profiled_sizes.push_back(0);
  if (state_.profiling) state_.measured_sizes.push_back(0);
}

int Scheduler::size_of(int job) const {
  const ClusterJob& one = state_.jobs[at(job)];
  return state_.kinds[at(one.kind)].size_index(one.gpus);
}

void Scheduler::arrived(int job) {
  ClusterJob& one = state_.jobs[at(job)];
  one.phase = JobPhase::kWaiting;
  one.since = state_.now;
  state_.active.push_back(job);
  happened_.arrived.push_back(job);
  due_ = true;
}

void Scheduler::finished(int job) {
  state_.jobs[at(job)].done = state_.jobs[at(job)].iterations;
  cancelled(job);
}

void Scheduler::cancelled(int job) {
  ClusterJob& one = state_.jobs[at(job)];
  if (one.to_profile) mark_profiled(job, false);  // cut short, so that the next job of its kind is profiled
  one.to_profile = false;
  one.in_transition = false;
  one.phase = JobPhase::kDone;
  one.finish = state_.now;
  if (one.has_gpus()) free_gpus_of(job);
  state_.active.erase(std::lower_bound(state_.active.begin(), state_.active.end(), job));
  ++state_.done;
  happened_.finished.push_back(job);
  due_ = true;
}

void Scheduler::preempted(int job) {
  state_.jobs[at(job)].in_transition = false;
  take_gpus(job);
  insert_sorted(happened_.arrived, job);
  due_ = true;
}

bool Scheduler::adopted(int job, const std::vector<int>& nodes, int gpus, int speed) {
  ClusterJob& one = state_.jobs[at(job)];
  const int all = gpus * static_cast<int>(nodes.size());
  const std::vector<int> sizes = state_.kind_of(job).elastic_sizes();
  if (std::ranges::find(sizes, all) == sizes.end() || !placement_.place_on(job, nodes, gpus)) return false;
  one.nodes = static_cast<int>(nodes.size());
  state_.free_gpus = placement_.free_gpus();
  runs(job, all, speed);
  return true;
}

void Scheduler::pinned(int job, int gpus, int speed) {
  state_.jobs[at(job)].pinned = true;
  state_.pinned_gpus += gpus;
  runs(job, gpus, speed);
}

void Scheduler::runs(int job, int gpus, int speed) {
  ClusterJob& one = state_.jobs[at(job)];
  one.phase = JobPhase::kRunning;
  one.since = one.first_start = state_.now;
  one.gpus = gpus;
  one.speed = speed;
  insert_sorted(state_.active, job);
  insert_sorted(state_.holding, job);
  happened_.budget = due_ = true;  // a decision from scratch
}

void Scheduler::limit_changed(Watts limit) {
  state_.power_limit = limit;
  happened_.budget = due_ = true;
}

void Scheduler::woken() {
  wake_at_.reset();
  happened_.timer = due_ = true;
}

void Scheduler::profiled(int job, bool learned) {
  ClusterJob& one = state_.jobs[at(job)];
  if (!learned) {
    mark_profiled(job, false);
  } else if (const int size = size_of(job); size < 64) {
    one.profiled |= std::uint64_t{1} << size;
  }
  one.to_profile = false;
  happened_.profiled.push_back(job);
  due_ = true;
}

// Marks that a job of this kind is being, or was, profiled at the job's size.
void Scheduler::mark_profiled(int job, bool marked) {
  if (state_.profiled_sizes.empty()) return;
  const int size = size_of(job);
  if (size >= 64) return;
  std::uint64_t& sizes = state_.profiled_sizes[at(state_.jobs[at(job)].kind)];
  const std::uint64_t bit = std::uint64_t{1} << size;
  sizes = marked ? sizes | bit : sizes & ~bit;
}

void Scheduler::learn(int job, const std::vector<int>& speeds, const MeasuredCosts& measured) {
  learn({{state_.jobs[at(job)].kind, size_of(job), placement_.nodes_of(job)}, speeds}, measured);
}

void Scheduler::learn(ProfiledSpeeds what, const MeasuredCosts& measured) {
  what.speeds = belief_->unknown_speeds(what);
  if (what.speeds.empty()) return;
  const auto changed = belief_->learn(what, measured, state_.believed);
  if (what.at.size < 64 && state_.profiling)
    state_.measured_sizes[at(what.at.kind)] |= std::uint64_t{1} << what.at.size;
  for (const int kind : changed) {
    power_book_->recount(kind);
    insert_sorted(happened_.kinds_changed, kind);
  }
}

void Scheduler::metered(int job, int speed) {
  if (!belief_) return;
  const ClusterJob& one = state_.jobs[at(job)];
  if (!one.pinned && placement_.nodes_of(job) != packed_nodes(state_.spec, one.gpus)) return;
  if (!power_book_->meter(one.kind, size_of(job), speed, one.power)) return;
  power_book_->recount(one.kind);
  insert_sorted(happened_.power_changed, one.kind);
}

void Scheduler::set_powered(int node, bool on) {
  if (on == placement_.is_on(node)) return;
  if (!placement_.is_away(node)) state_.nodes_on += on ? 1 : -1;
  placement_.set_powered(node, on);
}

void Scheduler::set_away(int node, bool away) {
  if (away == placement_.is_away(node)) return;
  for (const int job : jobs_on(node)) preempted(job);
  state_.nodes_away += away ? 1 : -1;
  if (placement_.is_on(node)) state_.nodes_on -= away ? 1 : -1;
  placement_.set_away(node, away);
  state_.free_gpus = placement_.free_gpus();
  due_ = true;
}

std::vector<int> Scheduler::jobs_on(int node) const {
  std::vector<int> jobs;
  std::ranges::copy_if(state_.holding, std::back_inserter(jobs), [&](int job) {
    return std::ranges::any_of(placement_.blocks(job), [&](const GpuBlock& block) { return block.node == node; });
  });
  return jobs;
}

void Scheduler::decide() {
  try {
    ask_policy();
  } catch (const Error&) {
    begin_anew();
    throw;
  }
}

// What the policy keeps of jobs may be of a decision that was not carried out.
void Scheduler::begin_anew() {
  policy_ = make_policy(policy_name_, options_);
  wake_at_.reset();
  happened_.clear();
  std::ranges::copy_if(state_.active, std::back_inserter(happened_.arrived),
                       [this](int job) { return !state_.jobs[at(job)].has_gpus(); });
  happened_.budget = due_ = true;
}

void Scheduler::ask_policy() {
  due_ = false;
  ClusterEvents events = std::exchange(happened_, {});
  std::sort(events.finished.begin(), events.finished.end());
  std::sort(events.profiled.begin(), events.profiled.end());
  decision_.clear();
  policy_->decide(state_, events, decision_);
  ++decisions_;
  wake_at_ = decision_.wake_at;
  if (wake_at_ && *wake_at_ <= state_.now) {
    throw Error(fmt::format("policy {} asks to be woken in the past", policy_name_));
  }
  check_decision();
  apply();
}

void Scheduler::check_decision() const {
  const auto refuse = [&](const Assignment& one, const char* what) {
    throw Error(fmt::format("policy {} at {} s: job {} {} ({} GPUs, speed {})", policy_name_, state_.now.value(),
                            one.job, what, one.gpus, one.speed));
  };
  int free = state_.free_gpus;
  std::set<int> left;  // jobs whose partner leaves
  for (const Assignment& one : decision_.assignments) {
    if (one.job < 0 || at(one.job) >= state_.jobs.size() || !state_.jobs[at(one.job)].active()) {
      refuse(one, "is not there to be scheduled");
    }
    const ClusterJob& job = state_.jobs[at(one.job)];
    const ClusterJobKind& kind = state_.kinds[at(job.kind)];
    if (one.gpus != 0 && kind.size_index(one.gpus) < 0) refuse(one, "cannot have that many GPUs");
    if (traits_.placement == PlacementRule::kPacked && !job.pinned && (one.gpus & (one.gpus - 1)) != 0) {
      refuse(one, "is to be packed, which takes a power of two");
    }
    if (one.gpus != 0 && (one.speed < 0 || at(one.speed) >= kind.speeds)) refuse(one, "has no such speed");
    if (job.pinned && one.gpus != job.gpus) refuse(one, "keeps its GPUs");
    if (job.phase == JobPhase::kProfiling && one.gpus != job.gpus) refuse(one, "is being profiled");
    // One that has lost its GPUs already waits for others, also while it is still to stop.
    if (job.in_transition && job.has_gpus() && one.gpus != job.gpus) refuse(one, "is in transition");
    if (one.partner >= 0) {
      if (const char* const why = not_together(one.job, one.partner, one.gpus)) refuse(one, why);
    }
    const int partner = left.count(one.job) != 0 ? -1 : job.partner;
    if (job.gpus == one.gpus && partner == one.partner) continue;
    if (partner < 0) {
      free += job.gpus;
    } else {
      left.insert(partner);
    }
    if (one.partner < 0) free -= one.gpus;
  }
  if (free < 0)
    throw Error(fmt::format("policy {} at {} s gives away more GPUs than there are", policy_name_, state_.now.value()));
}

const char* Scheduler::not_together(int job, int with, int gpus) const {
  if (traits_.jobs_per_gpu < 2) return "is to share GPUs, which the policy does not";
  if (with == job || at(with) >= state_.jobs.size() || !state_.jobs[at(with)].active()) return "has no such partner";
  double memory = 0.0;
  for (const int one : {job, with}) {
    const ClusterJobKind& kind = state_.kind_of(one);
    const int size = kind.size_index(gpus);
    if (size < 0 || kind.memory_gib[at(size)] <= 0.0) return "shares GPUs, but what it or its partner needs is unknown";
    memory += kind.memory_gib[at(size)];
  }
  return memory > state_.spec.memory_gib ? "does not fit in a GPU's memory beside its partner" : nullptr;
}

void Scheduler::apply() {
  for (const Assignment& one : decision_.assignments) {
    const ClusterJob& job = state_.jobs[at(one.job)];
    if (job.gpus == 0) continue;
    const bool leaves = one.gpus != job.gpus || one.partner != job.partner;
    if (leaves || (one.closer && placement_.fits_closer(one.job))) take_gpus(one.job);
  }
  // Large jobs first, since they need whole nodes.
  std::vector<Assignment> to_place;
  for (const Assignment& one : decision_.assignments) {
    const ClusterJob& job = state_.jobs[at(one.job)];
    if (job.gpus == one.gpus) {
      if (one.gpus == 0 || one.speed == job.speed) continue;
      state_.jobs[at(one.job)].speed = one.speed;
      host_->changed_speed(one.job);
    } else {
      to_place.push_back(one);
    }
  }
  std::stable_sort(to_place.begin(), to_place.end(),
                   [](const Assignment& a, const Assignment& b) { return a.gpus > b.gpus; });
  // Which whole nodes these keep leaves as many to others.
  std::stable_partition(to_place.begin(), to_place.end(), [&](const Assignment& one) {
    return preferred_.count(one.job) != 0 && one.gpus >= state_.spec.gpus_per_node;
  });
  // Jobs that join others are placed after those.
  std::stable_partition(to_place.begin(), to_place.end(), [](const Assignment& one) { return one.partner < 0; });
  std::set<int> placed;
  place_and_start(to_place, placed);
  for (const Assignment& one : decision_.assignments) {
    const ClusterJob& job = state_.jobs[at(one.job)];
    if (job.partner < 0 || state_.jobs[at(job.partner)].speed == job.speed) continue;
    throw Error(fmt::format("policy {} at {} s: jobs {} and {} share GPUs at two speeds", policy_name_,
                            state_.now.value(), one.job, job.partner));
  }
  // Moving jobs pays if it empties a node that can then be shut down.
  if (state_.spec.node_shutdown && traits_.placement == PlacementRule::kPacked) {
    const int on_partial = state_.free_gpus_on() - placement_.empty_nodes_on() * state_.spec.gpus_per_node;
    const bool goes_off = placement_.empty_nodes_on() >= state_.spec.nodes_kept_on;
    if (goes_off && on_partial >= state_.spec.gpus_per_node) compact(placed);
  }
}

// A job that has GPUs starts, even if another one finds none.
void Scheduler::place_and_start(const std::vector<Assignment>& to_place, std::set<int>& placed) {
  const auto start_all = [&] {
    for (const int job : placed) start(job);
  };
  try {
    for (const Assignment& one : to_place) give_gpus(one, placed);
  } catch (const Error&) {
    start_all();
    throw;
  }
  start_all();
}

void Scheduler::take_gpus(int job) {
  host_->settle(job);
  ClusterJob& one = state_.jobs[at(job)];
  if (one.to_profile) mark_profiled(job, false);
  one.to_profile = false;
  free_gpus_of(job);
  one.phase = JobPhase::kWaiting;
  host_->stopped(job);
}

// Frees a job's GPUs, or leaves them to its partner.
void Scheduler::free_gpus_of(int job) {
  ClusterJob& one = state_.jobs[at(job)];
  if (one.pinned) state_.pinned_gpus -= one.gpus;
  one.gpus = one.nodes = 0;
  state_.holding.erase(std::lower_bound(state_.holding.begin(), state_.holding.end(), job));
  one.gpu_utilisation = 0.0;
  if (one.partner >= 0) {
    const int partner = one.partner;
    host_->settle(partner);
    state_.jobs[at(partner)].partner = one.partner = -1;
    placement_.release(job);
    return host_->changed_partner(partner);
  }
  const std::span<const GpuBlock> held = placement_.blocks(job);
  const std::vector<GpuBlock> blocks(held.begin(), held.end());
  placement_.release(job);
  state_.free_gpus = placement_.free_gpus();
  for (const GpuBlock& block : blocks) {
    if (placement_.used_on(block.node) == 0) host_->emptied(block.node);
  }
}

void Scheduler::give_gpus(const Assignment& assignment, std::set<int>& placed) {
  if (assignment.gpus == 0) return;
  if (assignment.partner >= 0) {
    join(assignment);
  } else if (!place_preferred(assignment) && !placement_.place(assignment.job, assignment.gpus)) {
    compact(placed);
    if (!placement_.place(assignment.job, assignment.gpus)) {
      throw Error(fmt::format("job {} finds no place for {} GPUs although {} are free", assignment.job, assignment.gpus,
                              placement_.free_gpus()));
    }
  }
  state_.free_gpus = placement_.free_gpus();
  host_->settle(assignment.job);  // the time that it waited does not count as service
  ClusterJob& one = state_.jobs[at(assignment.job)];
  one.gpus = assignment.gpus;
  state_.holding.insert(std::lower_bound(state_.holding.begin(), state_.holding.end(), assignment.job), assignment.job);
  one.speed = assignment.speed;
  placed.insert(assignment.job);
}

bool Scheduler::place_preferred(const Assignment& assignment) {
  const auto preferred = preferred_.find(assignment.job);
  const int per_node = state_.spec.gpus_per_node;
  if (preferred == preferred_.end() || assignment.gpus % per_node != 0) return false;
  const auto count = at(assignment.gpus / per_node);
  std::vector<int> nodes;
  for (const int node : preferred->second) {
    const bool is_free = placement_.used_on(node) == 0 && !placement_.is_away(node);
    if (!is_free && nodes.empty()) return false;  // the first one, without which the others are of no use
    if (is_free && nodes.size() < count) nodes.push_back(node);
  }
  if (nodes.size() != count || count == preferred->second.size()) return false;
  std::ranges::sort(nodes);
  return placement_.place_on(assignment.job, nodes, per_node);
}

// Puts the job on its partner's GPUs.
void Scheduler::join(const Assignment& assignment) {
  ClusterJob& partner = state_.jobs[at(assignment.partner)];
  if (partner.gpus != assignment.gpus || partner.partner >= 0) {
    throw Error(fmt::format("policy {} at {} s: job {} finds {} GPUs with job {}, or a third job there", policy_name_,
                            state_.now.value(), assignment.job, partner.gpus, assignment.partner));
  }
  placement_.share(assignment.job, assignment.partner);
  host_->settle(assignment.partner);
  partner.partner = assignment.job;
  state_.jobs[at(assignment.job)].partner = assignment.partner;
}

// Jobs that are moved restart; those that have not begun yet lose nothing.
void Scheduler::compact(const std::set<int>& placed) {
  const std::vector<int> moved = placement_.compact();
  std::vector<int> restarted = moved;
  std::erase_if(restarted, [&](int job) { return placed.count(job) != 0; });
  for (const int job : restarted) {
    host_->settle(job);
    host_->moves(job);
  }
  for (const int job : restarted) start(job);
  for (int node = 0; !moved.empty() && node < state_.spec.nodes; ++node) {
    if (placement_.used_on(node) == 0) host_->emptied(node);
  }
}

// The job has new GPUs.
void Scheduler::start(int job) {
  host_->settle(job);
  ClusterJob& one = state_.jobs[at(job)];
  one.nodes = placement_.nodes_of(job);
  if (one.first_start.value() >= 0.0) ++one.restarts;
  const bool resumes = traits_.resume && one.phase == JobPhase::kWaiting;
  one.phase = JobPhase::kStarting;
  // A job that was moved during its profiling continues it.
  if (!one.to_profile && state_.to_be_profiled(job, size_of(job))) {
    one.to_profile = true;
    mark_profiled(job, true);
  }
  host_->started(job, resumes);
}

}  // namespace flyball
