// Snapshots hold everything that changes during a run. What follows from that (free blocks, beliefs, a policy's lists)
// is rebuilt in the same order, so that a restored run continues to the same bytes.
//
// No command takes a snapshot yet. They are for a controller that drives the engine in real time and is restarted: it
// cannot learn a policy's queues from the cluster, and what was profiled and metered took minutes of GPU time.
#include <algorithm>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/index.h"
#include "base/json_text.h"
#include "base/record_codec.h"
#include "cluster/engine.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "flyball-cluster-snapshot-2";

Json job_json(const ClusterJob& job, const Placement& placement, int index) {
  Json blocks = Json::array();
  for (const GpuBlock& block : placement.blocks(index)) blocks.push_back({block.node, block.first, block.count});
  Json json = {{"phase", static_cast<int>(job.phase)},
               {"gpus", job.gpus},
               {"speed", job.speed},
               {"since", job.since.value()},
               {"done", job.done},
               {"gpu_time", job.gpu_time.value()},
               {"rate", job.iterations_per_second},
               {"power", job.power.value()},
               {"first_start", job.first_start.value()},
               {"finish", job.finish.value()},
               {"energy", job.energy.value()},
               {"restarts", job.restarts},
               {"profiled", job.profiled},
               {"to_profile", job.to_profile},
               {"blocks", std::move(blocks)}};
  if (job.partner >= 0) json["partner"] = job.partner;
  if (job.gpu_utilisation > 0.0) json["gpu_utilisation"] = job.gpu_utilisation;
  return json;
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(what);
}

}  // namespace

std::string Simulation::snapshot() const {
  const Engine& engine = *engine_;
  Json jobs = Json::array();
  for (std::size_t i = 0; i < engine.next_arrival; ++i) {
    Json job = job_json(engine.state.jobs[i], *engine.placement, static_cast<int>(i));
    const Engine::JobRun& run = engine.runs[i];
    job["event"] = run.event.value();
    const Engine::Profiling& profiling = run.profiling;
    job["profiling"] = {profiling.top, profiling.slice, profiling.left.value(), profiling.allowed};
    job["microwatts"] = run.power;
    jobs.push_back(std::move(job));
  }
  Json nodes = Json::array();
  for (const Engine::NodeRun& node : engine.nodes) {
    nodes.push_back({node.on, node.usable.value(), node.off_at.value()});
  }
  Json learned = Json::array();
  for (const ProfiledSpeeds& what : engine.learned) {
    learned.push_back({what.at.kind, what.at.size, what.at.nodes, what.speeds});
  }
  Json metered = Json::array();
  for (const PowerBook::Place& what : engine.power_book->metered())
    metered.push_back({what.kind, what.size, what.speed, what.power.value()});
  const Json json = {{"format", kFormat},
                     {"policy", engine.policy_name},
                     {"jobs_of_trace", engine.state.jobs.size()},
                     {"now", engine.state.now.value()},
                     {"power_limit", engine.state.power_limit.value()},
                     {"next_budget", engine.next_budget},
                     {"timer", write_value(engine.timer)},
                     {"energy", engine.energy.parts()},
                     {"busy_energy", engine.busy_energy.parts()},
                     {"profiling_energy", engine.profiling_energy.parts()},
                     {"gpu_seconds", engine.gpu_seconds.parts()},
                     {"peak_microwatts", engine.peak_power},
                     {"peak_job_microwatts", engine.peak_job_power},
                     {"restarts", engine.restarts},
                     {"decisions", engine.decisions},
                     {"last_finish", engine.last_finish.value()},
                     {"learned", std::move(learned)},
                     {"metered", std::move(metered)},
                     {"nodes", std::move(nodes)},
                     {"jobs", std::move(jobs)},
                     {"policy_state", engine.policy->save()}};
  return json.dump() + "\n";
}

void Simulation::Engine::restore(const std::string& text) {
  check_json_depth("the snapshot", text);
  const Json json = Json::parse(text);
  require(json.at("format") == kFormat, "it is of another format");
  require(json.at("policy") == policy_name, "it is of another policy");
  require(json.at("jobs_of_trace") == state.jobs.size(), "it is of another trace");
  require(json.at("nodes").size() == nodes.size(), "it is of another cluster");
  require(json.at("jobs").size() <= state.jobs.size(), "it has more jobs than the trace");
  require(next_arrival == 0 && state.done == 0, "this simulation has begun already");

  const auto seconds = [](const Json& value) { return Seconds(value.get<double>()); };
  state.now = seconds(json.at("now"));
  state.power_limit = Watts(json.at("power_limit").get<double>());
  next_budget = json.at("next_budget").get<std::size_t>();
  if (!json.at("timer").is_null()) timer = seconds(json.at("timer"));
  energy.set(json.at("energy").get<std::pair<double, double>>());
  busy_energy.set(json.at("busy_energy").get<std::pair<double, double>>());
  profiling_energy.set(json.at("profiling_energy").get<std::pair<double, double>>());
  gpu_seconds.set(json.at("gpu_seconds").get<std::pair<double, double>>());
  json.at("peak_microwatts").get_to(peak_power);
  json.at("peak_job_microwatts").get_to(peak_job_power);
  json.at("restarts").get_to(restarts);
  json.at("decisions").get_to(decisions);
  last_finish = seconds(json.at("last_finish"));

  state.nodes_on = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Json& given = json.at("nodes").at(i);
    NodeRun& node = nodes[i];
    given.at(0).get_to(node.on);
    node.usable = seconds(given.at(1));
    node.off_at = seconds(given.at(2));
    state.nodes_on += node.on ? 1 : 0;
    placement->set_powered(static_cast<int>(i), node.on);
    if (node.off_at.value() >= 0.0) shut_downs.emplace(node.off_at.value(), static_cast<int>(i));
  }
  for (const Json& given : json.at("learned")) {
    const ProfiledSpeeds what{{given.at(0).get<int>(), given.at(1).get<int>(), given.at(2).get<int>()},
                              given.at(3).get<std::vector<int>>()};
    const ProfiledSize& size = what.at;
    require(belief && size.kind >= 0 && at(size.kind) < state.kinds.size() && size.size >= 0 &&
                at(size.size) < state.kinds[at(size.kind)].sizes.size(),
            "it learned of a size that no job has");
    for (const int speed : what.speeds) {
      require(speed >= 0 && at(speed) < state.kinds[at(size.kind)].speeds, "it learned of a speed that no job has");
    }
    learn(what);
  }
  happened.clear();
  for (const Json& what : json.at("metered")) {
    const PowerBook::Place place{what.at(0).get<int>(), what.at(1).get<int>(), what.at(2).get<int>(),
                                 Watts(what.at(3).get<double>())};
    require(place.kind >= 0 && at(place.kind) < state.kinds.size() && place.size >= 0 &&
                at(place.size) < state.kinds[at(place.kind)].sizes.size() && place.speed >= 0 &&
                at(place.speed) < state.kinds[at(place.kind)].speeds,
            "it metered a size or speed that no job has");
    power_book->meter(place.kind, place.size, place.speed, place.power);
  }
  for (int kind = 0; kind < static_cast<int>(state.kinds.size()); ++kind) power_book->recount(kind);
  for (const Json& given : json.at("jobs")) restore_job(static_cast<int>(next_arrival++), given);
  for (const int job : state.active) {
    if (state.jobs[at(job)].to_profile) mark_profiled(job, true);
  }
  state.free_gpus = placement->free_gpus();
  policy->restore(state, json.at("policy_state"));
}

void Simulation::Engine::restore_job(int index, const Json& given) {
  ClusterJob& job = state.jobs[at(index)];
  JobRun& run = runs[at(index)];
  const auto seconds = [&](const char* name) { return Seconds(given.at(name).get<double>()); };
  const int phase = given.at("phase").get<int>();
  require(phase > static_cast<int>(JobPhase::kFuture) && phase <= static_cast<int>(JobPhase::kDone),
          "a job is in no known phase");
  job.phase = static_cast<JobPhase>(phase);
  given.at("gpus").get_to(job.gpus);
  given.at("speed").get_to(job.speed);
  const ClusterJobKind& kind = state.kinds[at(job.kind)];
  require(job.gpus == 0 || (kind.size_index(job.gpus) >= 0 && job.speed >= 0 && at(job.speed) < kind.speeds),
          "a job has GPUs or a speed that it cannot have");
  job.since = seconds("since");
  given.at("done").get_to(job.done);
  job.gpu_time = seconds("gpu_time");
  given.at("rate").get_to(job.iterations_per_second);
  job.power = Watts(given.at("power").get<double>());
  job.first_start = seconds("first_start");
  job.finish = seconds("finish");
  job.energy = Joules(given.at("energy").get<double>());
  given.at("restarts").get_to(job.restarts);
  given.at("profiled").get_to(job.profiled);
  if (!state.profiled_sizes.empty()) state.profiled_sizes[at(job.kind)] |= job.profiled;
  run.event = seconds("event");
  const Json& profiling = given.at("profiling");
  run.profiling = {profiling.at(0).get<int>(), profiling.at(1).get<int>(), Seconds(profiling.at(2).get<double>()),
                   profiling.at(3).get<Microwatts>()};
  require(run.profiling.top < static_cast<int>(kind.speeds) && run.profiling.slice >= 0 &&
              run.profiling.slice <= run.profiling.top + 1,
          "a job is profiled at speeds that it does not have");
  given.at("to_profile").get_to(job.to_profile);
  given.at("microwatts").get_to(run.power);
  std::vector<GpuBlock> blocks;
  for (const Json& block : given.at("blocks")) {
    blocks.push_back({block.at(0).get<int>(), block.at(1).get<int>(), block.at(2).get<int>()});
  }
  job.gpu_utilisation = given.value("gpu_utilisation", 0.0);
  job.partner = given.value("partner", -1);
  require(job.partner < static_cast<int>(state.jobs.size()) && job.partner != index, "a job's partner is no other job");
  if (job.partner >= 0 && job.partner < index) {
    placement->share(index, job.partner);
    require(std::ranges::equal(placement->blocks(index), blocks), "partners lie apart");
  } else if (!blocks.empty()) {
    require(placement->put(index, blocks), "two jobs have one GPU");
  }
  job.nodes = placement->nodes_of(index);
  job_power += run.power;
  if (job.phase == JobPhase::kProfiling) profiling_power += run.power;
  if (run.event.value() >= 0.0) events.push({run.event, index, run.version});
  if (job.phase == JobPhase::kDone) {
    ++state.done;
  } else {
    state.active.push_back(index);
    if (job.has_gpus()) state.holding.push_back(index);
  }
}

void Simulation::restore(const std::string& source, std::string_view snapshot) {
  constexpr const char* kMend = "give the snapshot of a simulation with the same trace, cluster, policy and seed";
  try {
    engine_->restore(std::string(snapshot));
    engine_->check();
  } catch (const nlohmann::json::exception& error) {
    throw InputError({source}, error.what(), kMend);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError({source}, error.what(), kMend);
  }
}

}  // namespace flyball
