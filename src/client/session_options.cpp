// The options' names, bounds and meanings. What a session hands on to the server is held to the bounds of the message
// that it goes into, and mostly described in that message's words.
#include "client/session_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/record.h"
#include "net/client.h"

namespace flyball {
namespace {

constexpr double kShortest = 1e-9;  // s
constexpr double kLongest = 1e6;

// The rules of a message's field, which may be left out here, since a session may have no server.
template <Described Message>
FieldRules as_in(const char* field) {
  const auto& fields = record_of<Message>().fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& one) { return one.name == field; });
  FieldRules rules = fields.at(static_cast<std::size_t>(found - fields.begin())).rules;
  rules.needed = rules.left_out = false;
  rules.fewest = 0;
  return rules;
}

}  // namespace

Record<SessionOptions> description_of(const SessionOptions* /*type*/) {
  using R = SessionOptions;
  using Job = JobRequest;
  using Rank = RankRequest;
  using Sweep = OnlineProfiler::Options;
  return Record<R>::request("SessionOptions",
                            "Options of flyball_session_open in C and flyball.Session in Python. Those that describe "
                            "the job must be the same on every rank.")
      .field("server", &R::server,
             "The planning server: HOST:PORT, https://HOST:PORT (see ca_file) or the path of a Unix socket. Empty: no "
             "server; the rank is still profiled and measured.")
      .field("ca_file", &R::ca_file,
             "PEM file of the authorities from which the certificate of an https:// server may come. Empty: the "
             "authorities that this machine trusts.")
      .field("job", &R::job, &Job::id,
             "The job's id; if there is a server, 1 to 128 letters, digits, '.', '_', '+' and '-'.")
      .field("token", &R::job, &Job::token, "The job's secret: 32 to 128 letters, digits, '_' and '-'.")
      .field("registration_token", &R::registration_token,
             "Token to register the job with, if the server asks for one. Empty: the content of the environment "
             "variable FLYBALL_REGISTRATION_TOKEN, or of the file that FLYBALL_REGISTRATION_TOKEN_FILE names.")
      .field("stages", &R::job, &Job::stages, as_in<Job>("stages"))
      .field("microbatches", &R::job, &Job::microbatches, as_in<Job>("microbatches"))
      .field("chunks", &R::job, &Job::chunks, as_in<Job>("chunks"))
      .field("data_parallel", &R::job, &Job::data_parallel, as_in<Job>("data_parallel"))
      .field("tensor_parallel", &R::job, &Job::tensor_parallel, as_in<Job>("tensor_parallel"))
      .field("schedule", &R::job, &Job::schedule, as_in<Job>("schedule"))
      .field("planner", &R::job, &Job::planner, as_in<Job>("planner"))
      .field("executed_steps", &R::executed_steps, as_in<Job>("executed_steps").text)
      .field("executes_order", &R::job, &Job::executes_order, as_in<Job>("executes_order"))
      .field("order", &R::job, &Job::order, as_in<Job>("order"))
      .field("transfers_occupy_both", &R::job, &Job::transfers_occupy_both, as_in<Job>("transfers_occupy_both"))
      .field("places_transfers", &R::job, &Job::places_transfers, as_in<Job>("places_transfers"))
      .field("blocking_w", &R::job, &Job::blocking_power,
             "Blocking power: what a GPU draws while it waits for others. 0: as the sweep measures it, or 75 W if "
             "hardly any GPU waits.",
             as_in<Job>("blocking_power_w"))
      .field("noise", &R::job, &Job::noise, as_in<Job>("noise"))
      .field("memory_limit", &R::job, &Job::memory_limit, as_in<Job>("memory_limit"))
      .field("switch_latency_s", &R::job, &Job::switch_latency,
             "Time from a clock change until it takes effect. The plan avoids changes that do not pay, and counts what "
             "the others cost. 0: as the sweep measures it.",
             as_in<Job>("switch_latency_s"))
      .field("clocks_ahead", &R::clocks_ahead, as_in<Job>("clocks_ahead").text)
      .field("min_dwell_s", &R::job, &Job::min_dwell, as_in<Job>("min_dwell_s"))
      .field("max_power_w", &R::limits, &JobLimits::max_power,
             "The most that all GPUs of the job together (stages * data_parallel * tensor_parallel) may draw at any "
             "moment, as the plan is emulated. 0: there is no such limit.",
             {.minimum = 0, .maximum = as_in<JobLimits>("max_power_w").maximum})
      .field("max_ramp_w_per_s", &R::limits, &JobLimits::max_ramp_w_per_s,
             "The most by which the job's power, averaged over ramp_window_s, may change per second from one such "
             "window to the next, in watts per second. 0: there is no such limit.",
             {.minimum = 0, .maximum = as_in<JobLimits>("max_ramp_w_per_s").maximum})
      .field("ramp_window_s", &R::limits, &JobLimits::ramp_window, as_in<JobLimits>("ramp_window_s"))
      .field("rank", &R::rank, &Rank::rank, as_in<Rank>("rank"))
      .field("dp_rank", &R::rank, &Rank::dp_rank, as_in<Rank>("dp_rank"))
      .field("pp_rank", &R::rank, &Rank::pp_rank, as_in<Rank>("pp_rank"))
      .field("tp_rank", &R::rank, &Rank::tp_rank, as_in<Rank>("tp_rank"))
      .field("gpu", &R::gpu, &SessionGpuRequest::gpu,
             "Number of the rank's GPU: the agent's number if the agent sets the clocks, otherwise the number that "
             "`flyball devices` shows.")
      .field(
          "clocks", &R::gpu, &SessionGpuRequest::clocks,
          "Where clocks are set: \"device\", \"none\" or the agent's address (\"/run/flyball/agent.sock\", "
          "\"HOST:PORT\"). Empty: through the agent if one listens at its usual place, otherwise on the device itself.")
      .field(
          "plan", &R::plan,
          "A plan file to run, without a server: `plan.json` of `flyball plan`, or a list of clocks as Zeus, Perseus "
          "and Kareus have them (freqs_pipeline_N.py). The same on every rank. A session with a plan profiles only "
          "when it is told to do so again.")
      .field("plan_time_ratio", &R::plan_time_ratio,
             "What an iteration by the plan may take, as a multiple of one at maximum clocks; if it takes longer, the "
             "plan is given up. 0: as the plan file promises, or 1 if it promises nothing.",
             {.minimum = 0, .maximum = 100})
      .field("profile", &R::profile, "Whether to profile the rank while it trains, by a sweep over its clocks.")
      .field("steps_per_clock", &R::sweep, &Sweep::steps_per_clock,
             "Number of steps that the sweep measures at each clock; more, up to four times as many, where the energy "
             "counter changes fewer than a hundred times meanwhile.",
             {.minimum = 1})
      .field("rises_to_stop", &R::sweep, &Sweep::rises_to_stop,
             "Number of clocks in a row at which the energy of a step's computations must rise to end the sweep.",
             {.minimum = 1})
      .field("clock_stride", &R::sweep, &Sweep::clock_stride,
             "Spacing of the sweep's clocks: 1 measures at every clock of the GPU, 2 at every second one.",
             {.minimum = 1})
      .field("settle_s", &R::settle, "Time after a clock change during which nothing is measured.",
             {.minimum = 0, .maximum = kLongest})
      .field("sampling_s", &R::sampling_period,
             "Time between two readings of the energy counter; at the default, more where a reading is dear.",
             {.minimum = kShortest, .maximum = kLongest})
      .field("clock_poll_s", &R::controller, &ClockController::Options::poll_period,
             "Time between two checks of the control thread for a new clock.",
             {.minimum = kShortest, .maximum = kLongest})
      .field("time_scale", &R::time_scale,
             "Seconds of the GPU in one second of this machine; 1 unless the GPU is simulated.",
             {.minimum = 1e-6, .maximum = 1e6})
      .check([](const JsonObject& /*object*/, R& options) {
        Job& job = options.job;
        if (job.blocking_power == std::vector{Watts(0)}) job.blocking_power.clear();
        if (job.switch_latency == Seconds(0)) job.switch_latency.reset();
        if (options.limits.max_power == Watts(0)) options.limits.max_power.reset();
        if (options.limits.max_ramp_w_per_s == 0.0) options.limits.max_ramp_w_per_s.reset();
        job.limits = options.limits;
        // Only EnvPipe's planners use executed steps, and only a job that needs them asks for them.
        job.executed_steps = options.executed_steps && job.planner.starts_with("envpipe");
        job.clocks_ahead = options.clocks_ahead && !options.server.empty();
        options.gpu.purpose = {fmt::format("{}, rank {}", job.id, options.rank.rank), job.id, options.rank.rank};
        check_options(options);
        // What the server would refuse later is refused now.
        if (!options.server.empty()) (void)read_message<Job>(nlohmann::json(to_json(job)));
      });
}

void check_options(const SessionOptions& options) {
  if (options.plan_time_ratio != 0.0 && !(options.plan_time_ratio >= 1.0)) {
    throw UsageError("plan_time_ratio is 0 or at least 1: no plan is faster than maximum clocks");
  }
  if (options.server.empty()) return;
  if (!options.plan.empty()) {
    throw UsageError("a session runs the plan of its server or that of a file; leave out server or plan");
  }
  if (options.job.id.empty() || options.job.token.empty()) {
    throw UsageError("a session with a server needs the job's id and token, the same on every rank");
  }
  if (!options.ca_file.empty() && !parse_endpoint(options.server).tls) {
    throw UsageError(fmt::format(
        "ca_file is for a server that is named https://; {} would get the job's token in the clear", options.server));
  }
}

}  // namespace flyball
