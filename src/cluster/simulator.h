// The cluster simulator: jobs arrive, a policy decides, iterations advance at the speed of the ground truth, and every
// joule is counted. The simulator is event-driven and deterministic: the same input gives the same bytes on every
// machine.
//
// These things cost time and energy: A job whose GPUs change restarts, and its GPUs idle meanwhile. GPUs may take a
// while to change hands (ClusterSpec::changeover); the policy then leaves jobs alone that are on their way. A node
// without jobs is shut down after a while, under every policy, and must wake before it is used again. A size that is
// new to a job is profiled at one speed after another. GPUs without work draw idle power while their node is on. Energy
// is the exact integral of a power that is constant between events.
//
// A decision follows every arrival, completion, end of profiling and change of the budget, and comes at times for which
// a policy has asked. There is one decision for all that happens at one instant. Cost: O(log jobs) per event and per
// changed job, plus the policy's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/names.h"
#include "cluster/cluster_state.h"
#include "cluster/ground_truth.h"
#include "cluster/job_trace.h"
#include "cluster/policy.h"
#include "profile/gpu_model.h"

namespace flyball {

// What a policy knows about costs (PowerFlow figure 9).
enum class Knowledge {
  kLearned,  // models fitted to what profiling has measured so far of jobs that train the same network
  kFitted,   // models fitted beforehand to measurements at every size; no profiling
  kProfiled  // the truth, without profiling: the ideal case
};
template <>
inline constexpr auto kNamesOf<Knowledge> = name_list("learned", "fitted", "profiled");

// A pipeline-parallel job beside the trace's data-parallel ones. Its GPUs are fixed, its speed is a choice.
struct PipelineJob {
  Seconds submit;
  int gpus = 1;
  double iterations = 0.0;
  std::string name;
  std::vector<IterationCost> frontier;  // slowest first: falling time, rising power
};

// The power limit becomes eta * G * P_max at this time.
struct BudgetChange {
  Seconds at;
  double eta = 1.0;
};

struct SimulationSetup {
  ClusterSpec spec;                  // complete_spec() fills in clocks, f0, idle and P_max where they are empty
  double eta = 1.0;                  // the power limit at first, over G * P_max
  std::vector<BudgetChange> budget;  // rising times
  Knowledge knowledge = Knowledge::kLearned;
  double measurement_noise = 0.01;  // relative standard deviation of what profiling measures
  std::uint64_t seed = 1;           // for models and batch sizes that the trace leaves open, and for that noise
  std::vector<PipelineJob> pipelines;
  bool record = false;  // whether to keep the history for reports
};

struct SimulationResult {
  std::string policy;
  std::size_t jobs = 0;
  double avg_jct_s = 0.0;
  double p50_jct_s = 0.0;
  double p99_jct_s = 0.0;
  double makespan_s = 0.0;  // from the first submission to the last completion
  double energy_j = 0.0;
  double avg_power_w = 0.0;
  double peak_power_w = 0.0;
  double gpu_utilisation = 0.0;  // GPU-seconds that jobs held, over all GPU-seconds of the makespan
  std::int64_t migrations = 0;   // restarts: sizes changed, blocks moved, jobs resumed elsewhere
  std::int64_t decisions = 0;
  double peak_job_power_w = 0.0;  // peak of the sum of the jobs' power, which the limit bounds
  double busy_energy_j = 0.0;     // of GPUs that jobs hold
  double gpu_seconds = 0.0;
  double profiling_energy_j = 0.0;
};

[[nodiscard]] std::vector<double> sorted_jcts(const ClusterState& state);  // s, of the jobs that are done; rising

// The history of a simulation, for reports; filled if SimulationSetup::record is set.
struct ClusterPower {
  Seconds at;  // valid until the next
  int gpus = 0;
  int waiting = 0;  // jobs
  int nodes_on = 0;
  Watts power;
};
struct JobSpan {
  int job = 0;
  Seconds begin;
  Seconds end;
  int gpus = 0;
  int speed = 0;
  JobPhase phase = JobPhase::kRunning;
};
struct SimulationHistory {
  std::vector<ClusterPower> power;
  std::vector<JobSpan> spans;
};

// A simulation of one trace under one policy. Not thread-safe.
class Simulation {
 public:
  // `truth` must outlive the simulation. Throws UsageError for an impossible cluster or an unknown policy, and
  // InputError for a trace with models that the truth does not have or jobs larger than the cluster.
  Simulation(const SimulationSetup& setup, const GroundTruth& truth, const JobTrace& trace, std::string policy,
             const PolicyOptions& options = {});
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs until all jobs are done. `keep_going(share of jobs done)` is called now and then; if it returns false, run()
  // stops and returns false.
  bool run(const std::function<bool(double)>& keep_going = nullptr);
  // Runs until the simulated time passes `until` or all jobs are done; returns true in the latter case.
  bool run_until(Seconds until);

  [[nodiscard]] const ClusterState& state() const;
  [[nodiscard]] const Placement& placement() const;
  [[nodiscard]] const SimulationHistory& history() const;
  // The figures so far; JCTs are those of finished jobs.
  [[nodiscard]] SimulationResult result() const;

  // Checks what must hold between events, and throws Error if it does not: no GPU has two jobs unless they share it, no
  // GPU with a job is on a node that is off, GPUs are counted once, and sums of power and energy equal their parts.
  void check() const;

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

// Returns the knee of the GPU model's voltage curve: the last clock at its lowest voltage.
[[nodiscard]] Megahertz voltage_break_of(const GpuModel& gpu);

// Checks that jobs can have a clock. Throws UsageError, which lists the clocks, if not.
void check_clock(const ClusterSpec& spec, Megahertz clock);

// Fills in the empty fields that the GPU model determines: the clocks from f0 up in steps of `clock_step`, idle power,
// and P_max over the models of `truth`.
void complete_spec(ClusterSpec& spec, const GroundTruth& truth, Megahertz clock_step = Megahertz(30.0));

}  // namespace flyball
