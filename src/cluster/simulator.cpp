// Sets up a simulation from its arguments, and reports its figures.
#include "cluster/simulator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/nearest_name.h"
#include "cluster/engine.h"
#include "cluster/random.h"
#include "profile/data_file.h"
#include "profile/gpu_model.h"

namespace flyball {
namespace {

constexpr int kMostElasticGpus = 64;
constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kStepsPerReport = 512;

std::size_t percentile_index(std::size_t count, double share) {
  return static_cast<std::size_t>(std::ceil(share * static_cast<double>(count))) - 1;
}

// A standard normal number. It depends only on what is measured, so that the order of profiling does not matter.
double noise_of(std::uint64_t seed, const ClusterJobKind& kind, int gpus, int nodes, int speed, int which) {
  std::uint64_t key = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
  const auto mix = [&](std::uint64_t value) { key = (key ^ value) * 0x100000001b3u; };
  for (const char c : kind.model) mix(static_cast<unsigned char>(c));
  for (const double value : {kind.batch_size, double(gpus), double(nodes), double(speed), double(which)}) {
    mix(static_cast<std::uint64_t>(value));
  }
  return Random(key).normal();
}

// Draws the model and batch size that the trace leaves open, with at least one sample per GPU.
std::pair<int, double> draw_kind(const GroundTruth& truth, int model, int gpus, Random& random) {
  std::vector<std::pair<int, double>> candidates;
  for (int index = 0; index < static_cast<int>(truth.models().size()); ++index) {
    if (model >= 0 && index != model) continue;
    for (const int batch : truth.batch_sizes(index)) {
      if (batch >= gpus) candidates.emplace_back(index, batch);
    }
  }
  if (!candidates.empty()) {
    // The model is drawn first, so that models are equally likely however many batch sizes they have.
    std::vector<int> models;
    for (const auto& [index, batch] : candidates) {
      if (models.empty() || models.back() != index) models.push_back(index);
    }
    const int chosen = models[random.below(models.size())];
    std::erase_if(candidates, [&](const auto& one) { return one.first != chosen; });
    return candidates[random.below(candidates.size())];
  }
  const int index = model >= 0 ? model : static_cast<int>(random.below(truth.models().size()));
  return {index, static_cast<double>(truth.batch_sizes(index).back())};
}

SimulationSetup completed(SimulationSetup setup, const GroundTruth& truth, const PolicyOptions& options) {
  if (setup.spec.nodes < 1 || at(setup.spec.nodes) > kMostNodes) {
    throw UsageError(fmt::format("a cluster has from 1 to {} nodes, not {}", kMostNodes, setup.spec.nodes));
  }
  complete_spec(setup.spec, truth);
  if (options.clock) check_clock(setup.spec, *options.clock);
  return setup;
}

int model_of(const GroundTruth& truth, const JobTrace& trace, const TraceJob& job) {
  const int model = truth.find_model(job.model);
  if (model >= 0) return model;
  const std::string meant = nearest_name(job.model, truth.models());
  throw InputError({trace.source, job.line, job.line == 0 ? 0u : 1u}, fmt::format("unknown model '{}'", job.model),
                   fmt::format("{}; leave the field empty to have one drawn",
                               meant.empty() ? fmt::format("known is {} (and others)", truth.models().front())
                                             : fmt::format("did you mean {}?", meant)));
}

}  // namespace

Megahertz voltage_break_of(const GpuModel& gpu) {
  Megahertz knee = gpu.minimum;
  for (const VoltagePoint& point : gpu.voltage) {
    if (point.relative <= gpu.voltage.front().relative) knee = point.clock;
  }
  return knee;
}

void check_clock(const ClusterSpec& spec, Megahertz clock) {
  std::vector<double> clocks;
  for (const Megahertz one : spec.clocks) clocks.push_back(one.value());
  if (std::find(clocks.begin(), clocks.end(), clock.value()) != clocks.end()) return;
  const double nearest = *std::min_element(clocks.begin(), clocks.end(), [&](double a, double b) {
    return std::abs(a - clock.value()) < std::abs(b - clock.value());
  });
  throw UsageError(
      fmt::format("no job can run at {:g} MHz; the clocks of a {} here are {:g} MHz, and the nearest is {:g}",
                  clock.value(), spec.gpu, fmt::join(clocks, ", "), nearest));
}

void complete_spec(ClusterSpec& spec, const GroundTruth& truth, Megahertz clock_step) {
  const GpuModel gpu = load_gpu_model(spec.gpu);
  if (spec.voltage_break.value() <= 0.0) spec.voltage_break = voltage_break_of(gpu);
  if (spec.clocks.empty()) {
    for (Megahertz clock = gpu.maximum; clock >= spec.voltage_break; clock -= clock_step) spec.clocks.push_back(clock);
    std::reverse(spec.clocks.begin(), spec.clocks.end());
  }
  if (spec.idle.value() <= 0.0) {
    const toml::table file = parse_data_file(fmt::format("devices/{}.toml", gpu.name));
    spec.idle = Watts(DataTable(gpu.name, file).table("board").get<double>("idle_w"));
  }
  if (spec.busy.value() <= 0.0) spec.busy = gpu.busy;
  if (spec.limit.value() <= 0.0) spec.limit = gpu.limit;
  if (spec.memory_gib <= 0.0) {
    const toml::table file = parse_data_file(fmt::format("devices/{}.toml", gpu.name));
    spec.memory_gib = DataTable(gpu.name, file).table("board").get<double>("memory_mib") / 1024.0;
  }
  if (spec.p_max.value() <= 0.0) {
    double sum = 0.0;
    int count = 0;
    for (int model = 0; model < static_cast<int>(truth.models().size()); ++model) {
      for (const int batch : truth.batch_sizes(model)) {
        sum += truth.at(model, {1, 1, static_cast<double>(batch), spec.clocks.back()}).power().value();
        ++count;
      }
    }
    spec.p_max = Watts(sum / count);
  }
}

Simulation::Engine::Engine(const SimulationSetup& given, const GroundTruth& the_truth, const JobTrace& trace,
                           std::string name, const PolicyOptions& options)
    : setup(completed(given, the_truth, options)),
      truth(&the_truth),
      scheduler(setup.spec, setup.spec.p_max * (setup.eta * setup.spec.gpus()), std::move(name), options, *this),
      state(scheduler.state()),
      traits(scheduler.traits()),
      placement(scheduler.placement()),
      nodes(at(setup.spec.nodes)),
      idle_each(std::llround(setup.spec.idle.value() * 1e6)) {
  for (NodeRun& node : nodes) node.on = !setup.spec.node_shutdown;
  make_kinds(trace);
  fill_truth();
  // Policies that do not profile are told the truth: they stand for schedulers that know what they need to.
  Scheduler::Knowledge knowledge;
  knowledge.profiles = traits.profiles && setup.knowledge == Knowledge::kLearned;
  knowledge.models = traits.profiles && setup.knowledge != Knowledge::kProfiled;
  if (knowledge.models && setup.knowledge == Knowledge::kFitted) {
    knowledge.measured_beforehand = [this](const ProfiledSize& what, int speed) { return measured_cost(what, speed); };
  }
  scheduler.begin(knowledge);
  runs.resize(state.jobs.size());
  if (!state.jobs.empty()) begun = last_finish = state.now = state.jobs.front().submit;
}

void Simulation::Engine::make_kinds(const JobTrace& trace) {
  const ClusterSpec& spec = state.spec;
  Random random(setup.seed);
  std::map<std::pair<int, double>, int> known;
  std::vector<std::set<int>> sizes;
  struct Draft {
    ClusterJob job;
    Seconds duration;  // 0: it is a pipeline
  };
  std::vector<Draft> drafts;
  drafts.reserve(trace.jobs.size() + setup.pipelines.size());
  for (const TraceJob& one : trace.jobs) {
    if (one.gpus > spec.gpus()) {
      throw InputError({trace.source, one.line, one.line == 0 ? 0u : 1u},
                       fmt::format("the job asks for {} GPUs, the cluster has {}", one.gpus, spec.gpus()),
                       "simulate a larger cluster (--nodes, --gpus-per-node), or delete the row");
    }
    const int given = one.model.empty() ? -1 : model_of(*truth, trace, one);
    const auto [model, batch] =
        one.batch_size > 0 ? std::pair<int, double>(given, one.batch_size) : draw_kind(*truth, given, one.gpus, random);
    const auto [entry, is_new] = known.try_emplace({model, batch}, static_cast<int>(state.kinds.size()));
    if (is_new) {
      ClusterJobKind kind;
      kind.model = truth->models()[at(model)];
      kind.batch_size = batch;
      kind.clocks = spec.clocks;
      kind.speeds = spec.clocks.size();
      state.kinds.push_back(std::move(kind));
      truth_model.push_back(model);
      sizes.emplace_back();
      for (int gpus = 1; gpus <= std::min(kMostElasticGpus, spec.gpus()) && gpus <= batch; gpus *= 2) {
        sizes.back().insert(gpus);
      }
    }
    sizes[at(entry->second)].insert(one.gpus);
    Draft draft;
    draft.job.submit = one.submit;
    draft.job.requested_gpus = one.gpus;
    draft.job.kind = entry->second;
    draft.duration = one.duration;
    drafts.push_back(draft);
  }
  for (const PipelineJob& one : setup.pipelines) {
    if (one.gpus > spec.gpus() || one.frontier.empty()) {
      throw UsageError(fmt::format("pipeline {} does not fit the cluster, or has no frontier", one.name));
    }
    if (traits.placement == PlacementRule::kPacked && (one.gpus & (one.gpus - 1)) != 0) {
      throw UsageError(fmt::format("pipeline {} has {} GPUs; policy {} packs powers of two", one.name, one.gpus,
                                   scheduler.policy_name()));
    }
    ClusterJobKind kind;
    kind.model = one.name;
    kind.elastic = false;
    kind.speeds = one.frontier.size();
    state.kinds.push_back(std::move(kind));
    truth_model.push_back(-1);
    sizes.push_back({one.gpus});
    Draft draft;
    draft.job.submit = one.submit;
    draft.job.requested_gpus = one.gpus;
    draft.job.kind = static_cast<int>(state.kinds.size()) - 1;
    draft.job.iterations = one.iterations;
    drafts.push_back(draft);
  }
  for (std::size_t kind = 0; kind < sizes.size(); ++kind) {
    state.kinds[kind].sizes.assign(sizes[kind].begin(), sizes[kind].end());
  }
  std::stable_sort(drafts.begin(), drafts.end(),
                   [](const Draft& a, const Draft& b) { return a.job.submit < b.job.submit; });
  state.jobs.reserve(drafts.size());
  for (Draft& draft : drafts) {
    ClusterJob& job = draft.job;
    const int model = truth_model[at(job.kind)];
    if (model >= 0) {
      // As in PowerFlow's evaluation, the work is the trace's duration times the throughput of the GPUs that were asked
      // for.
      const JobConfiguration asked{job.requested_gpus, packed_nodes(spec, job.requested_gpus),
                                   state.kinds[at(job.kind)].batch_size, spec.clocks.back()};
      job.iterations = std::max(1.0, std::round(draft.duration / truth->at(model, asked).time));
    }
    job.since = job.submit;
    state.jobs.push_back(job);
  }
}

void Simulation::Engine::fill_truth() {
  std::size_t next_pipeline = 0;
  for (std::size_t index = 0; index < state.kinds.size(); ++index) {
    ClusterJobKind& kind = state.kinds[index];
    CostSheet sheet(kind.sizes.size(), kind.speeds);
    for (std::size_t size = 0; size < kind.sizes.size(); ++size) {
      for (std::size_t speed = 0; speed < kind.speeds; ++speed) {
        const int gpus = kind.sizes[size];
        sheet.at(size, speed) = truth_model[index] < 0
                                    ? setup.pipelines[next_pipeline].frontier[speed]
                                    : truth->at(truth_model[index], {gpus, packed_nodes(state.spec, gpus),
                                                                     kind.batch_size, kind.clocks[speed]});
      }
    }
    if (truth_model[index] < 0) ++next_pipeline;
    packed_truth.push_back(std::move(sheet));
    for (const int gpus : kind.sizes) {
      const bool known = traits.jobs_per_gpu > 1 && truth_model[index] >= 0;
      kind.memory_gib.push_back(known ? truth
                                            ->use(truth_model[index], {gpus, packed_nodes(state.spec, gpus),
                                                                       kind.batch_size, state.spec.clocks.back()})
                                            .memory_gib
                                      : 0.0);
    }
  }
  state.believed = packed_truth;  // the learner overwrites what it does not know
}

IterationCost Simulation::Engine::true_cost(int kind, int size, int on_nodes, int speed) const {
  const ClusterJobKind& one = state.kinds[at(kind)];
  const int gpus = one.sizes[at(size)];
  if (truth_model[at(kind)] < 0 || on_nodes == packed_nodes(state.spec, gpus)) {
    return packed_truth[at(kind)].at(at(size), at(speed));
  }
  std::vector<IterationCost>& costs = spread_truth[{kind, size, on_nodes}];
  if (costs.empty()) {
    for (const Megahertz clock : one.clocks) {
      costs.push_back(truth->at(truth_model[at(kind)], {gpus, on_nodes, one.batch_size, clock}));
    }
  }
  return costs[at(speed)];
}

double Simulation::Engine::true_utilisation(int kind, int size, int on_nodes, int speed) const {
  if (truth_model[at(kind)] < 0) return 0.0;
  std::vector<double>& shares = utilisations[{kind, size, on_nodes}];
  if (shares.empty()) {
    const ClusterJobKind& one = state.kinds[at(kind)];
    for (const Megahertz clock : one.clocks) {
      shares.push_back(
          truth->use(truth_model[at(kind)], {one.sizes[at(size)], on_nodes, one.batch_size, clock}).utilisation);
    }
  }
  return shares[at(speed)];
}

IterationCost Simulation::Engine::measured_cost(const ProfiledSize& what, int speed) const {
  const ClusterJobKind& one = state.kinds[at(what.kind)];
  const auto off_by = [&](int which) {
    const double error = noise_of(setup.seed, one, one.sizes[at(what.size)], what.nodes, speed, which);
    return 1.0 + setup.measurement_noise * std::clamp(error, -3.0, 3.0);
  };
  const IterationCost cost = true_cost(what.kind, what.size, what.nodes, speed);
  return {cost.time * off_by(0), cost.energy * off_by(1)};
}

// Throws why jobs are left although nothing will happen any more: the limit is below the least that any of them counts
// with.
void Simulation::Engine::fail_waiting() const {
  Watts most;  // the most of what jobs count with at least
  int hungriest = -1;
  for (const int job : state.active) {
    const int kind = state.jobs[at(job)].kind;
    const int size = state.kinds[at(kind)].size_index(state.kinds[at(kind)].elastic_sizes().front());
    Watts least = state.counted(kind, at(size), 0);
    for (std::size_t speed = 0; speed < state.kinds[at(kind)].speeds; ++speed) {
      least = std::min(least, state.counted(kind, at(size), speed));
    }
    if (state.unmetered[at(kind)]) least = least / (1.0 + kUnseenReserve);  // a job alone would run without the reserve
    if (hungriest < 0 || least > most) most = least, hungriest = job;
  }
  const std::string who = fmt::format("policy {} leaves {} waiting for ever", scheduler.policy_name(),
                                      state.active.size() == 1 ? "1 job" : fmt::format("{} jobs", state.active.size()));
  if (hungriest < 0 || most <= state.spendable_power()) {
    throw Error(who + ", though nothing keeps it from running them");
  }
  const double eta = std::ceil(1000.0 * (most / (state.spec.p_max * state.spec.gpus()))) / 1000.0;
  throw UsageError(fmt::format(
      "{}: job {} ({}) needs {:.0f} W of the budget at least{}, and the limit is {:.0f} W; give --eta {:g} or more",
      who, hungriest, state.kind_of(hungriest).model, most.value(),
      state.unmetered[at(state.jobs[at(hungriest)].kind)] ? ", as far as is known before it has run" : "",
      state.power_limit.value(), eta));
}

Simulation::Simulation(const SimulationSetup& setup, const GroundTruth& truth, const JobTrace& trace,
                       std::string policy, const PolicyOptions& options)
    : engine_(std::make_unique<Engine>(setup, truth, trace, std::move(policy), options)) {}

Simulation::~Simulation() = default;

bool Simulation::run(const std::function<bool(double)>& keep_going) {
  std::size_t steps = 0;
  const auto total = static_cast<double>(std::max<std::size_t>(1, engine_->state.jobs.size()));
  while (!engine_->finished()) {
    if (keep_going && ++steps % kStepsPerReport == 0 && !keep_going(engine_->state.done / total)) return false;
    if (engine_->step()) continue;
    engine_->fail_waiting();
  }
  return true;
}

bool Simulation::run_until(Seconds until) {
  while (!engine_->finished()) {
    const std::optional<Seconds> next = engine_->next_time();
    if (!next || *next > until) break;
    engine_->step();
  }
  return engine_->finished();
}

const ClusterState& Simulation::state() const { return engine_->state; }
const Placement& Simulation::placement() const { return engine_->placement; }
const SimulationHistory& Simulation::history() const { return engine_->history; }
void Simulation::check() const { engine_->check(); }

std::vector<double> sorted_jcts(const ClusterState& state) {
  std::vector<double> seconds;
  for (const ClusterJob& job : state.jobs) {
    if (job.phase == JobPhase::kDone) seconds.push_back((job.finish - job.submit).value());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

SimulationResult Simulation::result() const {
  const Engine& engine = *engine_;
  SimulationResult result;
  result.policy = engine.scheduler.policy_name();
  result.jobs = engine.state.jobs.size();
  const std::vector<double> times = sorted_jcts(engine.state);
  if (!times.empty()) {
    CompensatedSum sum;
    for (const double time : times) sum.add(time);
    result.avg_jct_s = sum.value() / static_cast<double>(times.size());
    result.p50_jct_s = times[percentile_index(times.size(), 0.50)];
    result.p99_jct_s = times[percentile_index(times.size(), 0.99)];
  }
  const Seconds end = engine.finished() ? engine.last_finish : engine.state.now;
  result.makespan_s = (end - engine.begun).value();
  result.energy_j = engine.energy.value();
  result.busy_energy_j = engine.busy_energy.value();
  result.profiling_energy_j = engine.profiling_energy.value();
  result.gpu_seconds = engine.gpu_seconds.value();
  if (result.makespan_s > 0.0) {
    result.avg_power_w = result.energy_j / result.makespan_s;
    result.gpu_utilisation = result.gpu_seconds / (result.makespan_s * engine.state.spec.gpus());
  }
  result.peak_power_w = static_cast<double>(engine.peak_power) * 1e-6;
  result.peak_job_power_w = static_cast<double>(engine.peak_job_power) * 1e-6;
  result.migrations = engine.restarts;
  result.decisions = engine.scheduler.decisions();
  return result;
}

}  // namespace flyball
