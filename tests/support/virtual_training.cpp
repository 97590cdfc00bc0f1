// Each stage has its own time. A stage goes on until it waits for a neighbour that has not come to their transfer yet;
// transfers begin when both have, so that the order in which stages are looked at plays no part.
#include "support/virtual_training.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/median.h"
#include "sim/chance.h"

namespace flyball::testing {
namespace {

enum Type : std::uint16_t { kForward, kBackward, kP2p, kP2pBack, kDataLoad, kGradientSync, kTypes };
constexpr const char* kTypeNames[] = {"forward", "backward", "p2p", "p2p_back", "data_load", "gradient_sync"};

// From the call to the driver: the clock controller looks every 0.5 ms, and the agent takes some more.
constexpr double kSlowestHandOver = 1e6;
// How late the counter's reader sees that it has changed.
constexpr double kLatestReading = 1e6;

bool is_backward(const ScheduledComputation& one) { return one.instruction == "backward"; }

}  // namespace

VirtualTraining::VirtualTraining(const TrainingWorld& world) : world_(world) {
  MachineRequest request;
  request.gpu = world.gpu;
  request.gpus = world.forward_s.size();
  request.seed = world.seed;
  request.switch_latency = world.switch_latency;
  for (const BoardSpec& spec : specify_machine(request).boards) {
    Stage stage;
    stage.spec = spec;
    stage.state = switched_on(spec);
    stage.state.processes[0] = {1, 1, 1};  // that waits whenever it does not work
    stage.next_change = spec.sensor_phase + spec.energy_period;
    stages_.push_back(std::move(stage));
  }
  for (Stage& stage : stages_) go_to(stage, 2 * kSecond);
  link_slowdowns_.assign(stages_.size() - 1, 1.0);
}

std::string VirtualTraining::type_name(std::uint16_t type) { return kTypeNames[type]; }

double VirtualTraining::evenly_drawn(std::uint64_t n) const { return evenly(mix(world_.seed + 77) + n); }

VirtualTraining::Orders VirtualTraining::at_maximum() const {
  Orders orders;
  for (int stage = 0; stage < world_.stages(); ++stage) {
    auto& order = orders.emplace_back();
    const int warm_up = std::min(world_.microbatches, world_.stages() - stage - 1);
    int back = 0;
    for (int i = 0; i < world_.microbatches; ++i) {
      order.push_back({"forward", i, 0, 0});
      if (i >= warm_up) order.push_back({"backward", back++, 0, 0});
    }
    while (back < world_.microbatches) order.push_back({"backward", back++, 0, 0});
  }
  return orders;
}

void VirtualTraining::ask(Stage& stage, Megahertz clock) {
  if (stage.wanted ? *stage.wanted == clock : stage.asked == clock) return;
  stage.wanted = clock;
  stage.asked_at = stage.state.now;
  stage.arrives = stage.state.now + static_cast<Nanoseconds>(kSlowestHandOver * chance());
}

// The driver makes one change after the other.
void VirtualTraining::hand_over(Stage& stage) {
  if (!stage.wanted || stage.state.effective_at > 0 || stage.arrives > stage.state.now) return;
  const Megahertz clock = *std::exchange(stage.wanted, std::nullopt);
  if (clock == stage.asked) return;
  stage.asked = clock;
  stage.state.requested.lock_minimum = stage.state.requested.lock_maximum =
      clock.value() > 0.0 ? supported_clock(stage.spec, clock) : Megahertz(0);
  stage.held_since = request_settings(stage.spec, stage.state);
  stage.ages.push_back(to_seconds(stage.held_since - stage.asked_at).value());
}

void VirtualTraining::go_to(Stage& stage, Nanoseconds time) {
  while (true) {
    hand_over(stage);
    if (stage.state.now >= time) return;
    Nanoseconds next = std::min(time, std::max(stage.state.now, stage.next_change));
    if (stage.state.effective_at > 0) next = std::min(next, stage.state.effective_at);
    if (stage.wanted && stage.arrives > stage.state.now) next = std::min(next, stage.arrives);
    advance(stage.spec, stage.state, next);
    if (stage.state.now < stage.next_change) continue;
    const Joules energy(1e-3 * static_cast<double>(counter_millijoules(stage.spec, stage.state)));
    stage.counter.push_back({stage.state.now + static_cast<Nanoseconds>(kLatestReading * chance()), energy});
    stage.next_change += stage.spec.energy_period;
  }
}

void VirtualTraining::work(Stage& stage, std::uint16_t type, const WorkKind& kind, double seconds) {
  if (stage.probed && stage.spans.size() == stage.probed->computation) ask(stage, stage.probed->clock);
  const Nanoseconds begin = stage.state.now;
  const int slot = start_work(stage.spec, stage.state, 0, kind, Seconds(seconds));
  SimWork& one = stage.state.works.at(static_cast<std::size_t>(slot));
  while (one.state == WorkState::kRunning) {
    if (stage.lead_clock && stage.lead_at <= stage.state.now) {
      stage.led_at = stage.state.now;
      ask(stage, *std::exchange(stage.lead_clock, std::nullopt));
    }
    hand_over(stage);
    Nanoseconds next = std::max(stage.state.now + 1, predicted_end(stage.spec, stage.state, 0));
    if (stage.lead_clock) next = std::min(next, stage.lead_at);
    if (stage.state.effective_at > stage.state.now) next = std::min(next, stage.state.effective_at);
    if (stage.wanted && stage.arrives > stage.state.now) next = std::min(next, stage.arrives);
    go_to(stage, next);
  }
  stage.spans.push_back({type, begin, one.end});
  one = {};
  stage.lead_clock.reset();
}

// As a session does when a computation begins.
void VirtualTraining::look_ahead(Stage& stage, const std::vector<ScheduledComputation>& order) {
  const int after_us = order[stage.next - 1].next_clock_after_us;
  if (after_us < 0) return;
  stage.lead_clock = Megahertz(order[stage.next].clock_mhz);
  stage.lead_at = stage.state.now + Nanoseconds{1000} * after_us;
}

// From one computation's end to the next one's, or as far as the neighbours let the stage. Returns whether it went.
bool VirtualTraining::go_on(std::size_t index, const std::vector<ScheduledComputation>& order) {
  Stage& stage = stages_[index];
  if (stage.done) return false;
  const ScheduledComputation* after = stage.next < order.size() ? &order[stage.next] : nullptr;
  const bool occupies = !world_.transfer_s.empty();
  // Where messages of a way (0: forwards) go and come from.
  const auto link = [&](int way, bool sends) -> Link* {
    const bool to_next = sends == (way == 0);
    const bool there = to_next ? index + 1 < stages_.size() : index > 0;
    return there ? &links_[to_next ? index : index - 1] : nullptr;
  };
  if (!stage.posted) {
    if (after != nullptr && after->clock_mhz > 0) ask(stage, Megahertz(after->clock_mhz));
    const std::optional<Nanoseconds> led_at = std::exchange(stage.led_at, std::nullopt);
    if (after != nullptr) stage.asked_times.push_back(led_at.value_or(stage.state.now));
    hand_over(stage);
    const bool placed = occupies && std::any_of(order.begin(), order.end(), [](const ScheduledComputation& one) {
                          return one.transfers != std::array<int, 4>{};
                        });
    for (std::size_t way = 0; way < 2; ++way) {
      const bool needed = after != nullptr && is_backward(*after) == (way == 1);
      std::size_t sends = stage.made[way] - stage.sent[way];
      std::size_t receives = needed ? 1 : 0;
      if (placed && after != nullptr) {
        sends = static_cast<std::size_t>(after->transfers[2 * way]);
        receives = static_cast<std::size_t>(after->transfers[2 * way + 1]);
      }
      stage.sent_before[way] = stage.sent[way];
      stage.awaited_before[way] = stage.awaited[way];
      if (Link* to = link(static_cast<int>(way), true)) {
        if (stage.sent[way] + sends > stage.made[way]) throw std::runtime_error("what was not made is to be sent");
        for (; sends > 0; --sends, ++stage.sent[way]) {
          const auto number = static_cast<std::size_t>(to - links_.data());
          const double length = occupies ? link_slowdowns_[number] * world_.transfer_s[number] *
                                               (1.0 + 0.002 * normally(world_.seed, draws_++))
                                         : 0.0;
          to->sent[way].push_back({stage.state.now, to_nanoseconds(Seconds(length))});
        }
      }
      if (Link* from = link(static_cast<int>(way), false)) {
        for (; receives > 0; --receives, ++stage.awaited[way]) from->awaited[way].push_back({stage.state.now, 0});
        if (needed && stage.awaited[way] <= stage.made[way]) throw std::runtime_error("what is needed was not awaited");
      }
    }
    stage.posted = true;
  }
  Nanoseconds met = stage.state.now;
  Nanoseconds end = met;
  // Messages of a link and way go one after the other.
  const auto meet = [&](const Link& over, std::size_t way, std::size_t first, std::size_t last, bool sends) {
    const std::vector<Post>& there = sends ? over.awaited[way] : over.sent[way];
    if (there.size() < last) return false;
    Nanoseconds done = 0;
    for (std::size_t number = first; number < last; ++number) {
      const Nanoseconds both = std::max(stage.state.now, there[number].time);
      met = std::max(met, both);
      done = std::max(done, both) + over.sent[way][number].length;
      end = std::max(end, done);
    }
    return true;
  };
  std::size_t sending = 0;
  std::size_t receiving = 0;
  bool same_link = true;
  const Link* spoken_to = nullptr;
  for (std::size_t way = 0; way < 2; ++way) {
    const Link* to = occupies ? link(static_cast<int>(way), true) : nullptr;
    const Link* from = link(static_cast<int>(way), false);
    if (to != nullptr && !meet(*to, way, stage.sent_before[way], stage.sent[way], true)) return false;
    if (from != nullptr && !meet(*from, way, stage.awaited_before[way], stage.awaited[way], false)) return false;
    const std::size_t sends = to == nullptr ? 0 : stage.sent[way] - stage.sent_before[way];
    const std::size_t receives = from == nullptr ? 0 : stage.awaited[way] - stage.awaited_before[way];
    sending += sends;
    receiving += receives;
    for (const Link* one : {sends > 0 ? to : nullptr, receives > 0 ? from : nullptr}) {
      if (one == nullptr) continue;
      same_link = same_link && (spoken_to == nullptr || spoken_to == one);
      spoken_to = one;
    }
  }
  go_to(stage, met);
  const bool told = occupies && sending == 1 && receiving <= 1 && same_link;
  const bool sent_back = stage.sent[1] > stage.sent_before[1];
  if (told) stage.spans.push_back({sent_back ? kP2pBack : kP2p, met, end});
  go_to(stage, end);
  stage.posted = false;
  if (after == nullptr) {
    if (world_.reduce_s > 0.0) work(stage, kGradientSync, WorkKind(WorkNature::kTransfers), world_.reduce_s);
    stage.done = true;
    return true;
  }
  ++stage.next;
  ++stage.made[is_backward(*after) ? 1 : 0];
  if (is_backward(*after)) {
    look_ahead(stage, order);
    const double share = stage.backwards++ == 0 ? 1.0 - world_.first_backward_saves : 1.0;
    work(stage, kBackward, stage.spec.backward, stage.longer[1] * share * world_.backward_s[index]);
    return true;
  }
  const bool loads = world_.load_s > 0.0 && (index == 0 || index + 1 == stages_.size());
  if (loads) work(stage, kDataLoad, WorkKind(WorkNature::kLoads), world_.load_s);
  look_ahead(stage, order);
  work(stage, kForward, stage.spec.forward, stage.longer[0] * world_.forward_s[index]);
  return true;
}

void VirtualTraining::iterate(const Orders& orders) {
  links_.assign(stages_.size() - 1, {});
  for (Stage& stage : stages_) {
    stage.spans.clear();
    stage.asked_times.clear();
    stage.next = 0;
    stage.backwards = 0;
    stage.done = false;
    for (int way = 0; way < 2; ++way) stage.made[way] = stage.sent[way] = stage.awaited[way] = 0;
  }
  bool any = true;
  while (any) {
    any = false;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      while (go_on(i, orders[i])) any = true;
    }
  }
  Nanoseconds end = 0;
  for (const Stage& stage : stages_) {
    if (!stage.done) throw std::runtime_error("the stages wait for each other");
    end = std::max(end, stage.state.now);
  }
  for (Stage& stage : stages_) go_to(stage, end);
}

TrainingWindow VirtualTraining::run(const Orders& orders, int iterations) {
  const auto energy = [this] {
    double sum = 0.0;
    for (const Stage& stage : stages_) {
      sum += stage.state.joules.value() * (world_.seed == 0 ? 1.0 : stage.spec.character.gain);
    }
    return sum;
  };
  const Nanoseconds begin = stages_[0].state.now;
  const double before = energy();
  for (int i = 0; i < iterations; ++i) iterate(orders);
  return {to_seconds(stages_[0].state.now - begin).value() / iterations, (energy() - before) / iterations};
}

void VirtualTraining::warm_up(const Orders& orders) {
  const Nanoseconds end = stages_[0].state.now + to_nanoseconds(Seconds(4.0 * stages_[0].spec.thermal_seconds));
  while (stages_[0].state.now < end) iterate(orders);
}

std::vector<std::vector<MeasuredTimes>> VirtualTraining::measured() const {
  std::vector<std::vector<MeasuredTimes>> all;
  for (const Stage& stage : stages_) {
    auto& times = all.emplace_back();
    for (const InstructionSpan& span : stage.spans) {
      if (span.type <= kBackward) times.push_back({span.begin, span.end});
    }
  }
  return all;
}

void VirtualTraining::slow_down(int stage, bool backward, double factor) {
  stages_[static_cast<std::size_t>(stage)].longer[backward ? 1 : 0] = factor;
}

void VirtualTraining::sweep_step(Stage& stage, OnlineProfiler* profiler, ChangeProbe* probe, Megahertz clock,
                                 Nanoseconds begin) {
  const bool holds = stage.asked == clock && stage.state.effective_at == 0 && !stage.wanted;
  StepRecord record{begin, stage.state.now, holds ? stage.held_since : 0, stage.spans};
  if (record.in_effect == 0 && holds) record.in_effect = 1;
  probe != nullptr ? probe->step_end(std::move(record)) : profiler->step_end(std::move(record));
}

std::vector<InstructionMeasurement> VirtualTraining::evaluate(const Stage& stage, OnlineProfiler& profiler) {
  const auto source = [&stage](Nanoseconds after) {
    CounterNews news;
    for (const CounterPoint& point : stage.counter) {
      if (point.time > after) news.changes.push_back(point);
    }
    const std::size_t count = news.changes.size();
    news.settled = count > 1 ? news.changes[count - 2].time : 0;
    return news;
  };
  std::vector<InstructionMeasurement> found;
  for (const ProfiledClock& clock : profiler.evaluate(source, kTypes)) {
    if (!clock.complete) continue;
    for (InstructionMeasurement& one : measurements_of(clock, [](std::size_t type) { return kTypeNames[type]; })) {
      found.push_back(std::move(one));
    }
    if (clock.activity.waiting_share >= 0.01 && clock.activity.waiting >= Watts(1e-6)) {
      found.push_back({"waiting", clock.clock, Seconds(1), clock.activity.waiting * Seconds(1), 1});
    }
  }
  return found;
}

VirtualTraining::SweepStep VirtualTraining::sweep_begin(int stage, OnlineProfiler& profiler) {
  Stage& swept = stages_[static_cast<std::size_t>(stage)];
  const SweepStep step{profiler.step_begin(), swept.state.now};
  if (step.clock) ask(swept, *step.clock);
  return step;
}

std::vector<InstructionMeasurement> VirtualTraining::sweep_end(int stage, OnlineProfiler& profiler,
                                                               const SweepStep& step) {
  Stage& swept = stages_[static_cast<std::size_t>(stage)];
  if (step.clock) sweep_step(swept, &profiler, nullptr, *step.clock, step.begin);
  return evaluate(swept, profiler);
}

// As client/session.cpp does it: a sweep, then a probe of how long a change takes, then default clocks.
std::vector<RankMeasurements> VirtualTraining::profile() {
  constexpr int kMostSteps = 100'000;
  struct Sweep {
    std::unique_ptr<OnlineProfiler> profiler;
    std::unique_ptr<ChangeProbe> probe;
    MeasurementSums sums;
    Megahertz slowest;
    bool finished = false;
  };
  std::vector<Sweep> sweeps(stages_.size());
  OnlineProfiler::Options options;
  options.clock_stride = world_.clock_stride;
  options.steps_per_clock = world_.steps_per_clock;
  options.least_readings = OnlineProfiler::kEnoughReadings;
  options.settle = 30 * kMillisecond;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::vector<Megahertz> clocks;
    const BoardSpec& spec = stages_[i].spec;
    for (Megahertz clock = spec.maximum; clock >= spec.minimum; clock -= spec.step) clocks.push_back(clock);
    sweeps[i].profiler = std::make_unique<OnlineProfiler>(clocks, options);
    sweeps[i].slowest = spec.maximum;
    stages_[i].counter.clear();
  }
  const Orders orders = at_maximum();
  for (int step = 0; step < kMostSteps; ++step) {
    std::vector<std::optional<Megahertz>> swept(stages_.size());
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      stage.probed.reset();
      if (sweeps[i].finished) {
        ask(stage, Megahertz(0));
      } else if (sweeps[i].probe) {
        stage.probed = sweeps[i].probe->step_begin();
        if (stage.probed) swept[i] = stage.probed->clock;
      } else {
        swept[i] = sweeps[i].profiler->step_begin();
        if (swept[i]) ask(stage, *swept[i]);
      }
    }
    const Nanoseconds begin = stages_[0].state.now;
    iterate(orders);
    bool finished = true;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      Sweep& sweep = sweeps[i];
      if (swept[i]) sweep_step(stage, sweep.profiler.get(), sweep.probe.get(), *swept[i], begin);
      const std::vector<InstructionMeasurement> found = evaluate(stage, *sweep.profiler);
      for (const InstructionMeasurement& one : found) sweep.slowest = std::min(sweep.slowest, one.clock);
      add_measurements(sweep.sums, found);
      if (!sweep.finished && sweep.profiler->progress().finished) {
        if (!sweep.probe) {
          sweep.probe = std::make_unique<ChangeProbe>(stage.spec.maximum, sweep.slowest);
        } else if (sweep.probe->finished()) {
          const auto shown = sweep.probe->delay();
          const Seconds delay = shown && *shown > Seconds(0) ? *shown : Seconds(median(stage.ages));
          add_measurements(sweep.sums, {{"clock_change", Megahertz(0), delay, Joules(1.0), 1}});
          sweep.finished = true;
        }
      }
      finished = finished && sweep.finished;
    }
    if (!finished) continue;
    for (Stage& stage : stages_) {
      stage.probed.reset();
      ask(stage, Megahertz(0));
    }
    std::vector<RankMeasurements> all;
    for (std::size_t i = 0; i < sweeps.size(); ++i) {
      all.push_back({static_cast<int>(i), static_cast<int>(i),
                     std::make_shared<const MeasurementSums>(std::move(sweeps[i].sums))});
    }
    return all;
  }
  throw std::runtime_error("the sweep does not end");
}

PromiseFigures keep_promise(const TrainingWorld& world, const std::string& planner, int iterations) {
  VirtualTraining training(world);
  training.warm_up(training.at_maximum());
  const TrainingWindow at_maximum = training.run(training.at_maximum(), iterations);
  const std::vector<RankMeasurements> ranks = training.profile();
  JobRequest request;
  request.planner = planner;
  request.stages = world.stages();
  request.microbatches = world.microbatches;
  request.transfers_occupy_both = !world.transfer_s.empty();
  request.places_transfers = true;
  request.clocks_ahead = world.clocks_ahead;
  request.executes_order = planner == "joint" || planner.starts_with("envpipe");
  request.executed_steps = planner.starts_with("envpipe");
  for (int stage = 0; stage < world.stages(); ++stage) {
    request.memory_limit.push_back(std::min(world.microbatches, world.stages() - stage + (planner == "joint" ? 1 : 0)));
  }
  std::shared_ptr<const JobPlan> plan = JobPlan::make("job", request, ranks, [](double) { return true; });
  const auto schedule = [&] {
    const JobPlan::Run run{plan->base_point(), plan->frontier().time(plan->base_point())};
    plan->prepare(run);
    return plan->schedule(run);
  };
  for (int step = 0; plan->wants_steps() && step < 2000; ++step) {
    training.run(schedule().stages, 1);
    plan = plan->reconfigured(training.measured());
  }
  const JobPlan::Schedule promised = schedule();
  training.warm_up(promised.stages);
  const TrainingWindow planned = training.run(promised.stages, iterations);
  const FrontierReport report = plan->report();
  const auto percent = [](double part, double whole) { return 100.0 * (part / whole - 1.0); };
  return {percent(promised.time.value(), report.max_clock_time.value()),
          -percent(promised.energy.value(), report.max_clock_energy.value()),
          percent(planned.time_s, at_maximum.time_s), -percent(planned.energy_j, at_maximum.energy_j)};
}

}  // namespace flyball::testing
