// Plans the pipeline of each row, and turns the points of its frontier from least energy to least time into speeds.
#include "cluster/pipeline_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cluster/trace_fields.h"
#include "pipeline/pipeline_spec.h"
#include "plan/planner.h"
#include "profile/profile.h"

namespace flyball {
namespace {

struct Planned {
  int stages = 0;
  Frontier frontier;
};

Planned plan_pipeline(const std::filesystem::path& path, int microbatches, PipelineSpeeds speeds) {
  const Profile profile = read_profile_file(path);
  PipelineSpec spec;
  spec.microbatches = microbatches;
  const ComputationDag dag = build_dag(spec, profile);
  constexpr Nanoseconds kUnitTime = 1'000'000;
  const PlanProblem problem =
      make_problem(dag, spec.blocking_powers(dag.stages(), profile), kUnitTime, CostModel::kHull);
  return {dag.stages(),
          make_planner(speeds == PipelineSpeeds::kMaxClocks ? "max" : "perseus")->plan(problem, {}).frontier};
}

}  // namespace

std::vector<IterationCost> frontier_speeds(const Frontier& frontier, int pipelines, std::size_t most) {
  const std::size_t slowest = frontier.least_total_energy();
  const std::size_t count = std::min(slowest + 1, std::max<std::size_t>(most, 2));
  std::vector<IterationCost> speeds;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = count == 1 ? 0 : slowest - i * slowest / (count - 1);
    speeds.push_back({frontier.time(index), frontier.energy(index) * pipelines});
  }
  return speeds;
}

std::vector<PipelineJob> read_pipeline_jobs(const std::filesystem::path& path, PipelineSpeeds speeds) {
  const std::string text = read_text_file(path);
  CsvReader csv(path.string(), text, {"submit_time", "profile", "microbatches", "pipelines", "iterations"});
  std::map<std::pair<std::string, int>, Planned> planned;
  std::vector<PipelineJob> jobs;
  while (csv.next()) {
    PipelineJob job;
    job.submit = read_trace_time(csv, "submit_time");
    job.name = std::string(csv.text("profile"));
    const int pipelines = csv.count("pipelines", kMostJobGpus, "write a whole number");
    job.iterations = csv.count("iterations", 1'000'000'000, "write a whole number");
    const std::pair<std::string, int> key(job.name, csv.count("microbatches", 100'000, "write a whole number"));
    auto found = planned.find(key);
    if (found == planned.end()) {
      found = planned.emplace(key, plan_pipeline(path.parent_path() / job.name, key.second, speeds)).first;
    }
    job.gpus = found->second.stages * pipelines;
    if (!std::has_single_bit(static_cast<unsigned>(job.gpus))) {
      throw InputError(csv.where("pipelines"),
                       fmt::format("{} stages times {} are {} GPUs", found->second.stages, pipelines, job.gpus),
                       "choose pipelines so that the job has a power of two of GPUs");
    }
    job.frontier = frontier_speeds(found->second.frontier, pipelines);
    if (speeds == PipelineSpeeds::kFastest) job.frontier.erase(job.frontier.begin(), job.frontier.end() - 1);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace flyball
