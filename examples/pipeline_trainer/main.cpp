// A pipeline-parallel training engine in small, with Flyball in it: real processes, real messages between them, 1F1B;
// only the computing is simulated. Trains without Flyball, profiles, trains by plan, meets a straggler, recovers, and
// says what that took by the GPUs' energy counters.
#include <unistd.h>

#include <getopt.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "flyball/sim.h"
#include "launcher.h"

namespace trainer {
namespace {

constexpr int kMostReconfiguringSteps = 5000;

// Of what Perseus's authors measured (docs/manual/simulated-boards.md): loading 4 to 11 ms, the first backward up to
// 6 % shorter. How long gradients are reduced is not among it.
constexpr double kLoadSeconds = 0.006;
constexpr double kReduceSeconds = 0.03;
constexpr double kFirstBackwardSaves = 0.05;

volatile sig_atomic_t interruptions = 0;

void interrupt(int /*signal*/) { interruptions = 1; }

constexpr const char* kHelp =
    R"(Trains a pipeline on simulated GPUs, first without, then with Flyball.

Usage: pipeline_trainer [OPTIONS]

  --forward S,S,...     forward of a microbatch per stage, s at the GPU's highest clock
                        (default: GPT-3 1.3B in four stages on A100 PCIe)
  --backward S,S,...    backward, likewise
  --microbatches N      per iteration and pipeline (default 12)
  --data-parallel N     so many pipelines, each with a process and a GPU per stage, which add up their gradients at the
                        end of every iteration (default 1)
  --server ADDRESS      of flyball serve; without one, nothing is planned
  --ca-file FILE        authorities of an https:// server (default: those that this machine trusts)
  --plan FILE           run the plan of this file, without a server, and measure windows of it
  --time-ratio X        with --plan: what an iteration by it may take, as a multiple of one at maximum clocks (default:
                        as the file promises)
  --job NAME            as the server is to know it
  --token TEXT          the job's secret, at least 32 characters
  --clocks WHERE        "device", "none", or the agent's address (default: as libflyball finds them)
  --planner NAME        perseus (default), joint, envpipe, uniform, max, ...; envpipe adjusts its plan by the iterations
                        that run here, from one to the next
  --memory-limit N,N,...  microbatches whose activations each stage may hold at a time (default: as many as 1F1B holds)
  --order WHICH         own (default): 1F1B; planned: the order that the planner chooses within the memory limit;
                        ignored: 1F1B, although Flyball is told that the order is planned
  --launch WHICH        stream (default): queue computations and transfers in a stream of the GPU, wait only for what
                        comes in and at the end of an iteration, and set and measure clocks in that stream; ahead: the
                        same, but clocks are set and measured when the process calls; wait: wait for each computation
  --transfer S,S,...    between neighbouring stages, per link, s of the GPUs; occupies both stages
                        (default: 2 ms, in the middle of the pipeline 10 ms; 0: none)
  --load S              before every forward of the first and of the last stage (default 0.006)
  --reduce S            reduction of the gradients at the end of every iteration (default 0.03)
  --ideal               nothing of this, and --launch wait: computations are all that takes time
  --steps-per-clock N   of the sweep (default 5)
  --clock-stride N      of the sweep (default 1: every clock)
  --noise SHARE         of a computation's energy that the meter cannot tell apart (default 0)
  --switch-latency S    time that the plan charges a clock change with (default 0: as the sweep measures it)
  --steps N             per measured window (default 10); nine and more in three parts, or in more until the two fastest
                        agree, of which the slower one is told
  --warm-up S           for which iterations run before maximum clocks or the first plan are measured, s of the GPUs:
                        boards that become warm take more energy, and near their power limit more time (default 0)
  --plan-only           measure one window by the plan that the server has, and nothing else
  --windows N           measure so many windows by plan, one after the other (default 1)
  --straggler DEGREE    another pipeline takes so many times as long for a while (default 1.2; 1: never): the last of
                        several, whose GPUs then compute slower, and which Flyball has to find; of one pipeline, one
                        that is no process, and is announced
  --profile FILE        what the stages measured, for flyball plan
  --json FILE           the measured windows, one JSON object per line
  --quiet               no progress

Figures of windows are those of the first pipeline. Needs a simulated machine with one GPU per stage and pipeline
(flyball sim up).
)";

std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  const char* at = text.c_str();
  while (true) {
    char* end = nullptr;
    values.push_back(std::strtod(at, &end));
    if (end == at || !(values.back() > 0.0)) throw std::invalid_argument("not a list of numbers above 0: " + text);
    if (*end == '\0') return values;
    at = end + 1;
  }
}

std::vector<int> counts(const std::string& text) {
  std::vector<int> values;
  for (const double value : numbers(text)) values.push_back(static_cast<int>(value));
  return values;
}

RunOrder run_order(const std::string& word) {
  if (word == "own") return RunOrder::kOwn;
  if (word == "planned") return RunOrder::kPlanned;
  if (word == "ignored") return RunOrder::kIgnored;
  throw std::invalid_argument("--order is own, planned or ignored, not " + word);
}

Launch launch_of(const std::string& word) {
  if (word == "stream") return Launch::kStream;
  if (word == "ahead") return Launch::kAhead;
  if (word == "wait") return Launch::kWait;
  throw std::invalid_argument("--launch is stream, ahead or wait, not " + word);
}

double time_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(value >= 0.0)) {
    throw std::invalid_argument("not a time from 0: " + text);
  }
  return value;
}

struct Options {
  Job job;
  int steps = 10;
  double straggler = 1.2;
  std::string json;
  bool quiet = false;
  double warm_up_s = 0.0;
  bool plan_only = false;
  int windows = 1;
};

// Two nodes or sockets, with fast links within each.
std::vector<double> usual_transfers(int stages) {
  std::vector<double> seconds(static_cast<std::size_t>(std::max(0, stages - 1)), 0.002);
  if (!seconds.empty()) seconds[seconds.size() / 2] = 0.010;
  return seconds;
}

Options parse(int argc, char** argv) {
  Options options;
  options.job.forward_s = {0.0444, 0.0444, 0.0518, 0.0474};
  options.job.backward_s = {0.1162, 0.1162, 0.1356, 0.1239};
  enum {
    kForward = 1,
    kBackward,
    kMicrobatches,
    kDataParallel,
    kServer,
    kPlan,
    kTimeRatio,
    kCaFile,
    kJob,
    kToken,
    kClocks,
    kPlanner,
    kMemoryLimit,
    kOrder,
    kLaunch,
    kTransfer,
    kLoad,
    kReduce,
    kIdeal,
    kStepsPerClock,
    kStride,
    kNoise,
    kSwitchLatency,
    kSteps,
    kWarmUp,
    kPlanOnly,
    kWindows,
    kStraggler,
    kProfile,
    kJson,
    kQuiet,
    kHelpOption
  };
  const option known[] = {{"forward", required_argument, nullptr, kForward},
                          {"backward", required_argument, nullptr, kBackward},
                          {"microbatches", required_argument, nullptr, kMicrobatches},
                          {"data-parallel", required_argument, nullptr, kDataParallel},
                          {"server", required_argument, nullptr, kServer},
                          {"plan", required_argument, nullptr, kPlan},
                          {"time-ratio", required_argument, nullptr, kTimeRatio},
                          {"ca-file", required_argument, nullptr, kCaFile},
                          {"job", required_argument, nullptr, kJob},
                          {"token", required_argument, nullptr, kToken},
                          {"clocks", required_argument, nullptr, kClocks},
                          {"planner", required_argument, nullptr, kPlanner},
                          {"memory-limit", required_argument, nullptr, kMemoryLimit},
                          {"order", required_argument, nullptr, kOrder},
                          {"launch", required_argument, nullptr, kLaunch},
                          {"transfer", required_argument, nullptr, kTransfer},
                          {"load", required_argument, nullptr, kLoad},
                          {"reduce", required_argument, nullptr, kReduce},
                          {"ideal", no_argument, nullptr, kIdeal},
                          {"steps-per-clock", required_argument, nullptr, kStepsPerClock},
                          {"clock-stride", required_argument, nullptr, kStride},
                          {"noise", required_argument, nullptr, kNoise},
                          {"switch-latency", required_argument, nullptr, kSwitchLatency},
                          {"steps", required_argument, nullptr, kSteps},
                          {"warm-up", required_argument, nullptr, kWarmUp},
                          {"plan-only", no_argument, nullptr, kPlanOnly},
                          {"windows", required_argument, nullptr, kWindows},
                          {"straggler", required_argument, nullptr, kStraggler},
                          {"profile", required_argument, nullptr, kProfile},
                          {"json", required_argument, nullptr, kJson},
                          {"quiet", no_argument, nullptr, kQuiet},
                          {"help", no_argument, nullptr, kHelpOption},
                          {nullptr, 0, nullptr, 0}};
  int chosen = 0;
  bool ideal = false;
  std::optional<Launch> launch;
  std::optional<std::vector<double>> transfer;
  std::optional<double> load;
  std::optional<double> reduce;
  while ((chosen = getopt_long(argc, argv, "h", known, nullptr)) != -1) {
    switch (chosen) {
      case kForward: options.job.forward_s = numbers(optarg); break;
      case kBackward: options.job.backward_s = numbers(optarg); break;
      case kMicrobatches: options.job.microbatches = std::stoi(optarg); break;
      case kDataParallel: options.job.pipelines = std::stoi(optarg); break;
      case kServer: options.job.server = optarg; break;
      case kPlan: options.job.plan = optarg; break;
      case kTimeRatio: options.job.plan_time_ratio = std::stod(optarg); break;
      case kCaFile: options.job.ca_file = optarg; break;
      case kJob: options.job.name = optarg; break;
      case kToken: options.job.token = optarg; break;
      case kClocks: options.job.clocks = optarg; break;
      case kPlanner: options.job.planner = optarg; break;
      case kMemoryLimit: options.job.memory_limit = counts(optarg); break;
      case kOrder: options.job.order = run_order(optarg); break;
      case kLaunch: launch = launch_of(optarg); break;
      case kTransfer: transfer = std::string(optarg) == "0" ? std::vector<double>() : numbers(optarg); break;
      case kLoad: load = time_of(optarg); break;
      case kReduce: reduce = time_of(optarg); break;
      case kIdeal: ideal = true; break;
      case kStepsPerClock: options.job.steps_per_clock = std::stoi(optarg); break;
      case kStride: options.job.clock_stride = std::stoi(optarg); break;
      case kNoise: options.job.noise = std::stod(optarg); break;
      case kSwitchLatency: options.job.switch_latency_s = std::stod(optarg); break;
      case kSteps: options.steps = std::stoi(optarg); break;
      case kWarmUp: options.warm_up_s = time_of(optarg); break;
      case kPlanOnly: options.plan_only = true; break;
      case kWindows: options.windows = std::stoi(optarg); break;
      case kStraggler: options.straggler = std::stod(optarg); break;
      case kProfile: options.job.profile = optarg; break;
      case kJson: options.json = optarg; break;
      case kQuiet: options.quiet = true; break;
      case 'h':
      case kHelpOption: std::fputs(kHelp, stdout); std::exit(0);
      default: throw std::invalid_argument("see --help");
    }
  }
  if (optind != argc) throw std::invalid_argument(std::string("what is '") + argv[optind] + "'? See --help");
  if (options.job.forward_s.size() != options.job.backward_s.size()) {
    throw std::invalid_argument("--forward and --backward need as many stages");
  }
  if (!options.job.memory_limit.empty() && options.job.memory_limit.size() != options.job.forward_s.size()) {
    throw std::invalid_argument("--memory-limit needs a number for each stage");
  }
  Job& job = options.job;
  job.launch = launch.value_or(ideal ? Launch::kWait : Launch::kStream);
  job.transfer_s = transfer.value_or(ideal ? std::vector<double>() : usual_transfers(job.stages()));
  job.load_s = load.value_or(ideal ? 0.0 : kLoadSeconds);
  job.reduce_s = reduce.value_or(ideal ? 0.0 : kReduceSeconds);
  job.first_backward_saves = ideal ? 0.0 : kFirstBackwardSaves;
  if (!job.transfer_s.empty() && static_cast<int>(job.transfer_s.size()) != job.stages() - 1) {
    throw std::invalid_argument("--transfer needs a time for each of the links, one fewer than stages, or 0");
  }
  if (!options.job.plan.empty() && !options.job.server.empty()) {
    throw std::invalid_argument("--plan runs the plan of a file, and --server the server's; give one of them");
  }
  if (options.steps < 1 || options.job.microbatches < 1 || options.job.pipelines < 1 || options.straggler < 1.0) {
    throw std::invalid_argument("--steps, --microbatches, --data-parallel and --straggler are at least 1");
  }
  return options;
}

class Report {
 public:
  explicit Report(const std::string& json) {
    if (json.empty()) return;
    file_ = std::fopen(json.c_str(), "w");
    if (file_ == nullptr) throw std::runtime_error(json + ": " + std::strerror(errno));
  }
  ~Report() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void add(const Window& window) {
    std::printf("%-30s %9.4f s %10.1f J per iteration", window.name.c_str(), window.time_s, window.energy_j);
    if (window.schedule_version > 0) {
      std::printf("   (plan %lld: %.4f s, %.1f J)", static_cast<long long>(window.schedule_version),
                  window.planned_time_s, window.planned_energy_j);
    }
    std::printf(window.complete ? "\n" : "   incomplete: a counter did not tell all of it\n");
    std::fflush(stdout);
    if (file_ == nullptr) return;
    std::fprintf(file_,
                 "{\"window\":\"%s\",\"steps\":%d,\"iteration_s\":%.9g,\"iteration_j\":%.9g,\"planned_s\":%.9g,"
                 "\"planned_j\":%.9g,\"straggler_w\":%.9g,\"schedule_version\":%lld,\"order\":%lld,\"complete\":%s,"
                 "\"most_held\":[",
                 window.name.c_str(), window.steps, window.time_s, window.energy_j, window.planned_time_s,
                 window.planned_energy_j, window.straggler_w, static_cast<long long>(window.schedule_version),
                 static_cast<long long>(window.order), window.complete ? "true" : "false");
    for (std::size_t stage = 0; stage < window.most_held.size(); ++stage) {
      std::fprintf(file_, "%s%d", stage == 0 ? "" : ",", window.most_held[stage]);
    }
    std::fprintf(file_, "]}\n");
    std::fflush(file_);
  }

  void add_processes(const std::vector<pid_t>& processes) {
    if (file_ == nullptr) return;
    for (std::size_t stage = 0; stage < processes.size(); ++stage) {
      std::fprintf(file_, "{\"stage\":%zu,\"pid\":%d}\n", stage, static_cast<int>(processes[stage]));
    }
    std::fflush(file_);
  }

  // One iteration of the sweep: how long it took, and at which clock each stage ran.
  void add_sweep(double time_s, const std::vector<Answer>& answers) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "{\"sweep_s\":%.9g,\"clocks_mhz\":[", time_s);
    for (std::size_t stage = 0; stage < answers.size(); ++stage) {
      std::fprintf(file_, "%s%.0f", stage == 0 ? "" : ",", answers[stage].state.clock_mhz);
    }
    std::fprintf(file_, "]}\n");
  }

  // How many iterations went by while the plan was adjusted, and how often it was.
  void add_reconfiguration(int steps, std::int64_t adjustments) {
    std::printf("the plan was adjusted %lld times in %d iterations\n", static_cast<long long>(adjustments), steps);
    std::fflush(stdout);
    if (file_ == nullptr) return;
    std::fprintf(file_, "{\"reconfigured_in\":%d,\"adjustments\":%lld}\n", steps, static_cast<long long>(adjustments));
    std::fflush(file_);
  }

  // What each stage's session has found out about its plan.
  void add_promise(const std::vector<Answer>& answers) {
    if (file_ == nullptr) return;
    for (std::size_t stage = 0; stage < answers.size(); ++stage) {
      const flyball_session_state& state = answers[stage].state;
      std::fprintf(file_,
                   "{\"stage\":%zu,\"promise\":%d,\"compared_iterations\":%lld,\"compared_j\":%.9g,"
                   "\"compared_at_maximum_j\":%.9g,\"power_limit_w\":%.9g}\n",
                   stage, state.promise, static_cast<long long>(state.compared_iterations), state.compared_energy_j,
                   state.compared_energy_at_maximum_j, state.power_limit_w);
    }
    std::fflush(file_);
  }

  void add_clocks(const std::vector<Answer>& answers) {
    for (std::size_t stage = 0; stage < answers.size(); ++stage) {
      const flyball_session_state& state = answers[stage].state;
      if (file_ == nullptr) continue;
      std::fprintf(file_,
                   "{\"stage\":%zu,\"clocks_set\":%llu,\"clocks_refused\":%llu,\"age_p50_s\":%.6g,\"age_p99_s\":%.6g,"
                   "\"waiting_w\":%.6g}\n",
                   stage, static_cast<unsigned long long>(state.clocks_set),
                   static_cast<unsigned long long>(state.clocks_refused), state.clock_age_p50_s, state.clock_age_p99_s,
                   state.waiting_w);
    }
  }

 private:
  std::FILE* file_ = nullptr;
};

// On a terminal only. How many clocks a stage tries is known only when its energy has risen.
void show_sweep(const std::vector<Answer>& answers, int steps) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[Kprofiling while training: step %d, clocks tried per stage", steps);
  for (const Answer& answer : answers) {
    std::fprintf(stderr, " %d%s", answer.state.clocks_done, answer.state.phase == FLYBALL_PROFILING ? "" : " (done)");
  }
}

void show_reconfiguration(const std::vector<Answer>& answers, int steps) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[Kadjusting the plan while training: step %d, schedule %lld", steps,
               static_cast<long long>(answers[0].state.schedule_version));
}

void train(const Options& options) {
  Job job = options.job;
  double now = 0.0;
  if (flyball_sim_time(&now, &job.time_scale) != FLYBALL_SIM_OK) {
    throw std::runtime_error("no simulated machine is up; make one: flyball sim up --gpus " +
                             std::to_string(job.stages() * job.pipelines));
  }
  if (!(job.time_scale > 0.0)) throw std::runtime_error("the simulated machine's time stands still");
  Report report(options.json);
  Launcher launcher(job);
  launcher.interrupted = [] { return interruptions != 0; };
  // A server that is restarted, or has many jobs to plan, sends its schedule late on a busy machine.
  constexpr std::chrono::seconds kPlannersPatience{120};
  const bool straggles = options.straggler > 1.0;
  std::int64_t version = 0;
  const auto newer = [&](const std::vector<Answer>& answers) {
    const std::int64_t newest = schedule_of_all(answers);
    if (newest <= version) return false;
    version = newest;
    return true;
  };
  // A planner that learns from these very steps has another schedule every few of them until it is done.
  const auto settle = [&](const std::string& name) {
    const std::int64_t first = version;
    int steps = 0;
    const auto settled = [&](const std::vector<Answer>& answers) {
      ++steps;
      if (!options.quiet) show_reconfiguration(answers, steps);
      return schedule_of_all(answers) > 0 && answers[0].state.reconfiguring == 0;
    };
    const bool done = launcher.step_until(settled, kMostReconfiguringSteps);
    if (!options.quiet && isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\n");
    if (!done) throw std::runtime_error("the plan is still being adjusted: " + name);
    version = schedule_of_all(launcher.answers());
    // The last one only says that it is the last.
    report.add_reconfiguration(steps, version - first - 1);
  };
  const auto warm_up = [&] {
    double scale = 0.0;
    double begin = 0.0;
    if (flyball_sim_time(&begin, &scale) != FLYBALL_SIM_OK) return;
    double at = begin;
    while (at - begin < options.warm_up_s && flyball_sim_time(&at, &scale) == FLYBALL_SIM_OK) launcher.step();
  };
  bool warm = false;
  const auto run_planned = [&](const std::string& name) {
    if (!launcher.step_until(newer, 1000, kPlannersPatience))
      throw std::runtime_error("there is no plan to run: " + name);
    if (launcher.answers()[0].state.reconfiguring != 0) settle(name);
    launcher.step();
    if (!std::exchange(warm, true)) warm_up();
    report.add(launcher.measure(name, options.steps));
  };
  report.add_processes(launcher.processes());
  if (options.plan_only) return run_planned("planned by " + job.planner);
  if (!job.plan.empty()) {
    // The sessions begin with some steps at maximum clocks, with which they compare.
    run_planned("planned");
    for (int i = 1; i < options.windows; ++i) report.add(launcher.measure("planned", options.steps));
    return report.add_promise(launcher.answers());
  }

  launcher.step();
  warm_up();
  const Window usual = launcher.measure("maximum clocks", options.steps);
  report.add(usual);
  if (straggles) {
    launcher.straggle(options.straggler, usual.time_s, false);
    report.add(launcher.measure("maximum clocks, straggler", options.steps));
    launcher.straggle(1.0, usual.time_s, false);
  }

  launcher.profile();
  int steps = 0;
  const auto swept = [&](const std::vector<Answer>& answers) {
    if (!options.quiet) show_sweep(answers, ++steps);
    report.add_sweep(answers[0].state.last_step_s, answers);
    for (const Answer& answer : answers) {
      if (answer.state.phase == FLYBALL_PROFILING) return false;
    }
    return true;
  };
  const bool done = launcher.step_until(swept, 100'000);
  if (!options.quiet) std::fprintf(stderr, "\n");
  if (!job.profile.empty()) launcher.write_profile();
  if (!done || job.server.empty()) return;

  run_planned("planned");
  for (int i = 1; i < options.windows; ++i) report.add(launcher.measure("planned", options.steps));
  if (straggles) {
    launcher.straggle(options.straggler, usual.time_s, true);
    run_planned("planned, straggler");
    launcher.straggle(1.0, usual.time_s, true);
    run_planned("planned, recovered");
  }
  report.add_clocks(launcher.answers());
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  signal(SIGINT, trainer::interrupt);
  signal(SIGTERM, trainer::interrupt);
  try {
    trainer::train(trainer::parse(argc, argv));
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "pipeline_trainer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline_trainer: %s\n", error.what());
    return 1;
  }
}
