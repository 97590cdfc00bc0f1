// Nodes of the controller: which of them the scheduler may use, and their power. The engine switches them; what is
// wanted follows from what the scheduler has placed where and from what the engine shows, so that nothing of it has to
// survive but the times (docs/decisions/0094-nodes-that-are-off.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/text.h"
#include "controller/controller.h"

namespace flyball {
namespace {

constexpr Seconds kSwitchAgain{60.0};  // after an order that was refused or changed nothing
constexpr int kWakesInMean = 20;       // so that what has changed since counts for little
constexpr Seconds kShortBlink{5.0};    // between two looks, that leave a wake measurable
constexpr double kRoughly = 0.1;       // of the wake, the same

}  // namespace

void Controller::leave_out_other_nodes(EngineView& view) const {
  if (!options_.partition) return;
  std::erase_if(view.nodes,
                [&](const EngineNode& one) { return std::ranges::count(one.partitions, *options_.partition) == 0; });
}

// Another controller may have it, whose hold must stay.
bool Controller::is_elsewhere(const EngineJob& seen) const {
  if (!options_.partition) return false;
  const std::vector<std::string_view> may_have = split_at(',', seen.partition);
  return std::ranges::find(may_have, *options_.partition) == may_have.end();
}

// Why the job may not have each of our nodes, where the scheduler may put each of its jobs.
std::string Controller::unlike_partition(const EngineJob& seen) const {
  if (options_.partition) {
    return seen.partition == *options_.partition ? "" : "it names several partitions (" + seen.partition + ")";
  }
  const auto lacks = [&](const EngineNode& one) {
    return node_index_.count(one.name) != 0 && std::ranges::count(one.partitions, seen.partition) == 0;
  };
  const auto node = seen.partition.empty() ? view_.nodes.end() : std::ranges::find_if(view_.nodes, lacks);
  if (node == view_.nodes.end()) return "";
  return fmt::format("its partition, {}, does not have node {} (a controller with --partition has one partition)",
                     seen.partition, node->name);
}

bool Controller::is_beside_others(const Job& job) const {
  return std::ranges::any_of(job.seen.gpus, [&](const NodeGpus& one) { return others_on_.count(one.node) != 0; });
}

// A job that cannot be moved makes its nodes those of others, and so every job on them.
void Controller::find_others() {
  others_on_.clear();
  const auto add = [&](const EngineJob& job) {
    bool is_new = false;
    for (const NodeGpus& one : job.gpus) is_new |= others_on_.insert(one.node).second;
    return is_new;
  };
  for (const EngineJob& seen : view_.jobs) {
    if (jobs_.count(seen.id) == 0) add(seen);
  }
  bool again = true;
  while (again) {
    again = false;
    for (auto& [id, job] : jobs_) {
      if (job.wanted || job.seen.gpus.empty()) continue;
      const bool stays = job.index < 0 && !is_eligible(job);
      if (stays || is_beside_others(job)) again |= add(job.seen);
    }
  }
  for (auto& [id, job] : jobs_) {
    if (job.index < 0 || job.wanted || job.seen.gpus.empty()) continue;
    if (!is_beside_others(job)) continue;
    leave_alone(job, "it shares a node with jobs that are not elastic");
    note_cause(fmt::format("job {} shares a node with others", id));
  }
}

// A node that is off is there, if it may be switched on; one on which a job was placed wakes.
void Controller::set_nodes(Seconds now) {
  std::map<std::string, const EngineNode*> seen;
  for (const EngineNode& node : view_.nodes) seen[node.name] = &node;
  sleepers_.clear();
  for (int index = 0; at(index) < node_names_.size(); ++index) {
    const std::string& name = node_names_[at(index)];
    const EngineNode* const node = seen[name];
    const bool on = node != nullptr && node->power == NodePower::kOn;
    const bool usable = node != nullptr && node->usable && (on || options_.nodes_off_after);
    if (usable && !on) sleepers_.insert(name);
    if (node != nullptr) note_wake(*node, now);
    if (!on) switch_after_.erase({name, false});
    const bool away = !usable || others_on_.count(name) != 0;
    if (away != scheduler_->placement().is_away(index)) {
      note_cause(fmt::format("node {} is {}", name, away ? "away" : "back"));
      scheduler_->set_away(index, away);
    }
    const bool wakes = node != nullptr && node->power == NodePower::kWaking;
    scheduler_->set_powered(index, on || wakes || scheduler_->placement().used_on(index) > 0);
  }
}

// From the order until it is there, as far as two looks tell. An order that a controller before this one gave, of which
// the end was not seen, is not measured.
void Controller::note_wake(const EngineNode& node, Seconds now) {
  const auto known = node_records_.find(node.name);
  if (known == node_records_.end() || known->second.asked.value() == 0.0) return;
  if (node.usable && node.power != NodePower::kOn) return;
  NodeRecord& record = known->second;
  const Seconds took = now - std::exchange(record.asked, Seconds(0.0));
  switch_after_.erase({node.name, true});
  if (!node.usable) {
    ++record.failed;
    log_(fmt::format("node {} was told to wake and did not come back: the cluster engine says {}", node.name,
                     node.state));
  } else if (looked_at_ && now - *looked_at_ <= std::max(kShortBlink, took * kRoughly)) {
    ++record.measured;
    record.mean_s += (took.value() - record.mean_s) / std::min(record.measured, kWakesInMean);
    log_(fmt::format("node {} is there {:.1f} s after it was told to wake", node.name, took.value()));
  }
  store_.keep(std::vector{record});
  set_wake();
}

// The scheduler charges the mean over the nodes that were measured.
void Controller::set_wake() {
  double sum = 0.0;
  int count = 0;
  for (const auto& [name, record] : node_records_) {
    if (record.measured == 0) continue;
    sum += record.mean_s;
    ++count;
  }
  scheduler_->state().spec.wake = count == 0 ? options_.spec.wake : Seconds(sum / count);
}

// Whether a job waits for nodes of which the scheduler does not decide: another's, which the engine may start at any
// moment, or one of ours that is left alone for a while.
bool Controller::is_awaited(Seconds now) const {
  return std::ranges::any_of(view_.jobs, [&](const EngineJob& one) {
    const auto job = jobs_.find(one.id);
    const bool ours = job != jobs_.end();
    if (one.state != EngineJobState::kPending || (ours && job->second.index >= 0)) return false;
    return (ours && !is_rigid(job->second) && job->second.not_before > now) ||
           (!one.held && !one.depends && one.for_nodes);
  });
}

// A node goes off once it has idled as long as was said, and as long as it takes to wake: by then it has drawn for
// nothing what waking it will.
void Controller::switch_nodes(Seconds now) {
  if (!options_.nodes_off_after) return;
  const Seconds after = std::max(*options_.nodes_off_after, scheduler_->state().spec.wake);
  std::vector<std::string> to_wake;
  std::vector<std::string> idle;
  int empty = 0;
  for (const EngineNode& node : view_.nodes) {
    const auto index = node_index_.find(node.name);
    if (index == node_index_.end() || scheduler_->placement().is_away(index->second)) continue;
    const auto may_be = [&](bool on) {
      const auto not_before = switch_after_.find({node.name, on});
      return not_before == switch_after_.end() || not_before->second <= now;
    };
    const bool used = scheduler_->placement().used_on(index->second) > 0;
    if (used && node.power == NodePower::kOff && may_be(true)) to_wake.push_back(node.name);
    if (used || node.power != NodePower::kOn) continue;
    ++empty;
    if (node.idle_since && now - *node.idle_since >= after && may_be(false)) idle.push_back(node.name);
  }
  switch_to(true, to_wake, "a job is to run there", now);
  const auto spare = static_cast<std::size_t>(std::max(0, empty - options_.nodes_kept_on));
  // The last ones, since the scheduler takes the first ones first.
  if (idle.size() > spare) idle.erase(idle.begin(), idle.end() - static_cast<std::ptrdiff_t>(spare));
  if (!idle.empty() && !is_awaited(now)) {
    switch_to(false, idle, fmt::format("idle for more than {:.0f} s", after.value()), now);
  }
}

void Controller::switch_to(bool on, const std::vector<std::string>& nodes, const std::string& why, Seconds now) {
  if (nodes.empty()) return;
  const std::string words = fmt::format("switch {} {}", fmt::join(nodes, ", "), on ? "on" : "off");
  decided_.push_back(fmt::format("{}: {}", words, why));
  if (options_.mode != ControllerMode::kActs) return;
  log_(decided_.back());
  std::vector<NodeRecord> records;
  for (const std::string& node : nodes) {
    switch_after_[{node, on}] = now + kSwitchAgain;
    NodeRecord& record = node_records_[node];
    record.node = node;
    record.asked = on ? now : Seconds(0.0);
    records.push_back(record);
  }
  // Before it is asked for, so that a controller that is killed between the two still measures it.
  if (on) store_.keep(records);
  try_to(words, [&] { engine_.set_power(nodes, on); });
}

bool Controller::is_awake(const GpuShape& target) const {
  return std::ranges::none_of(target.nodes, [&](const std::string& node) { return sleepers_.count(node) != 0; });
}

// A node whose agent answers is not off, whatever the engine says.
bool Controller::is_dark(const EngineNode& node) const {
  return node.power == NodePower::kOff && (options_.agents == nullptr || !options_.agents->reading(node.name).answers);
}

// GPUs that draw what idle ones do: those without a job on nodes that are on or that a job wakes. Where a node may be
// woken by a job of one GPU, also those that it would leave idle there, so that the limit does not fall by its start.
int Controller::idle_gpus() const {
  int idle = 0;
  bool may_wake = false;
  for (const EngineNode& node : view_.nodes) {
    const auto index = node_index_.find(node.name);
    const bool known = index != node_index_.end();
    if (is_dark(node) && (!known || scheduler_->placement().used_on(index->second) == 0)) {
      may_wake |= known && !scheduler_->placement().is_away(index->second);
      continue;
    }
    idle += node.gpus;
  }
  for (const EngineJob& one : view_.jobs) {
    const auto job = jobs_.find(one.id);
    if (job == jobs_.end() || job->second.index < 0) idle -= one.gpu_count();
  }
  for (const auto& [id, job] : jobs_) {
    if (job.index >= 0) idle -= scheduler_->state().jobs[at(job.index)].gpus;
  }
  return std::max(0, idle) + (may_wake ? options_.spec.gpus_per_node - 1 : 0);
}

void Controller::show_wake(const EngineNode& node, ClusterNodeStatus& shown) const {
  shown.off = is_dark(node);
  const auto known = node_records_.find(node.name);
  if (known == node_records_.end()) return;
  shown.wake = Seconds(known->second.mean_s);
  shown.wakes = known->second.measured;
  shown.wakes_failed = known->second.failed;
}

}  // namespace flyball
