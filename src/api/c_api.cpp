// include/flyball/flyball.h on client/session.h. Exceptions end here.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/clock_sinks.h"
#include "client/session.h"
#include "flyball/flyball.h"

struct flyball_session {
  flyball_session(flyball::SessionOptions options, flyball::SessionGpu gpu)
      : session(std::move(options), std::move(gpu)) {}

  flyball::Session session;
};

namespace flyball {
namespace {

thread_local std::string last_error;

int failed(int code, const char* words) noexcept {
  try {
    last_error = words;
  } catch (...) {
    last_error.clear();
  }
  return code;
}

// Runs the action; what it throws becomes a code and flyball_last_error.
template <class Action>
int guarded(Action action) noexcept {
  try {
    action();
    return FLYBALL_OK;
  } catch (const UsageError& error) {
    return failed(FLYBALL_USAGE, error.what());
  } catch (const InputError& error) {
    return failed(FLYBALL_USAGE, error.what());
  } catch (const SystemError& error) {
    return failed(FLYBALL_SYSTEM, error.what());
  } catch (const std::exception& error) {
    return failed(FLYBALL_FAULT, error.what());
  } catch (...) {
    return failed(FLYBALL_FAULT, "something was thrown that is no exception of the library");
  }
}

std::string text(const char* value) { return value == nullptr ? std::string() : std::string(value); }

std::string_view type_of(const char* type) {
  if (type == nullptr) throw UsageError("the instruction's type is null");
  return type;
}

SessionOptions options_of(const flyball_session_options& from) {
  SessionOptions options;
  options.server = text(from.server);
  options.ca_file = text(from.ca_file);
  options.job.id = text(from.job);
  options.job.token = text(from.token);
  if (from.schedule != nullptr) options.job.schedule = from.schedule;
  if (from.planner != nullptr) options.job.planner = from.planner;
  options.job.stages = from.stages;
  options.job.microbatches = from.microbatches;
  options.job.chunks = from.chunks;
  options.job.data_parallel = from.data_parallel;
  options.job.tensor_parallel = from.tensor_parallel;
  options.job.blocking_power = {Watts(from.blocking_w)};
  options.job.noise = from.noise;
  options.job.switch_latency = Seconds(from.switch_latency_s);
  options.job.min_dwell = Seconds(from.min_dwell_s);
  if (from.memory_limit != nullptr && from.stages > 0) {
    options.job.memory_limit.assign(from.memory_limit, from.memory_limit + from.stages);
  }
  // Others would be planned alike; only a job that needs it says so.
  options.job.executed_steps = from.executed_steps != 0 && options.job.planner.rfind("envpipe", 0) == 0;
  options.rank.rank = from.rank;
  options.rank.dp_rank = from.dp_rank;
  options.rank.pp_rank = from.pp_rank;
  options.rank.tp_rank = from.tp_rank;
  options.profile = from.profile != 0;
  options.sweep.steps_per_clock = from.steps_per_clock;
  options.sweep.rises_to_stop = from.rises_to_stop;
  options.sweep.clock_stride = from.clock_stride;
  options.settle = Seconds(from.settle_s);
  options.time_scale = from.time_scale;
  options.sampling_period = Seconds(from.sampling_s);
  options.controller.poll_period = Seconds(from.clock_poll_s);
  if (from.notice != nullptr) {
    options.notice = [notice = from.notice, user = from.user](const std::string& words) {
      notice(user, words.c_str());
    };
  }
  return options;
}

flyball_session_options defaults() {
  flyball_session_options options{};
  options.size = sizeof options;
  options.chunks = options.data_parallel = options.tensor_parallel = 1;
  options.blocking_w = 75.0;
  options.profile = 1;
  options.steps_per_clock = options.rises_to_stop = 5;
  options.clock_stride = 1;
  options.settle_s = 0.03;
  options.sampling_s = kDefaultSamplingPeriod.value();
  options.clock_poll_s = 0.0005;
  options.time_scale = 1.0;
  options.executed_steps = 1;
  return options;
}

int phase_code(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kProfiling: return FLYBALL_PROFILING;
    case SessionPhase::kWaiting: return FLYBALL_WAITING;
    case SessionPhase::kRunning: return FLYBALL_RUNNING;
    case SessionPhase::kIdle: return FLYBALL_IDLE;
  }
  return FLYBALL_IDLE;
}

flyball_session_state state_of(const SessionState& from) {
  flyball_session_state state{};
  state.phase = phase_code(from.phase);
  state.clocks_done = from.sweep.clocks_done;
  state.clocks_most = from.sweep.clocks_most;
  state.server_reachable = from.server_reachable ? 1 : 0;
  state.schedule_version = from.schedule_version;
  state.schedule_point = from.schedule_point;
  state.planned_time_s = from.planned_time.value();
  state.planned_energy_j = from.planned_energy.value();
  state.steps = from.steps;
  state.last_step_s = from.last_step.value();
  state.waiting_w = from.waiting_power.value();
  state.clocks_working = from.clocks.working ? 1 : 0;
  state.clocks_set = from.clocks.applied;
  state.clocks_refused = from.clocks.failed;
  state.clock_mhz = from.clocks.requested.value();
  state.clock_age_p50_s = to_seconds(from.clocks.ages.percentile(0.5)).value();
  state.clock_age_p99_s = to_seconds(from.clocks.ages.percentile(0.99)).value();
  state.reconfiguring = from.reconfiguring ? 1 : 0;
  return state;
}

// Callers that were compiled with an older, shorter structure: what they do not have keeps the default, or is not
// written.
void check_size(std::size_t size, std::size_t least) {
  if (size < least || size > (1u << 16u)) {
    throw UsageError("the structure's size is not set; use sizeof, or flyball_session_options_init");
  }
}

}  // namespace
}  // namespace flyball

using flyball::guarded;

extern "C" {

void flyball_session_options_init(flyball_session_options* options) {
  if (options != nullptr) *options = flyball::defaults();
}

flyball_session* flyball_session_open(const flyball_session_options* options) {
  flyball_session* session = nullptr;
  guarded([&] {
    if (options == nullptr) throw flyball::UsageError("the options are null");
    flyball::check_size(options->size, offsetof(flyball_session_options, server));
    flyball_session_options whole = flyball::defaults();
    std::memcpy(&whole, options, std::min(options->size, sizeof whole));
    flyball::SessionGpuRequest gpu;
    gpu.gpu = whole.gpu;
    gpu.clocks = flyball::text(whole.clocks);
    gpu.purpose = flyball::text(whole.job) + ", rank " + std::to_string(whole.rank);
    flyball::SessionOptions chosen = flyball::options_of(whole);
    flyball::check_options(chosen);
    session = std::make_unique<flyball_session>(std::move(chosen), flyball::open_session_gpu(gpu)).release();
  });
  return session;
}

void flyball_session_close(flyball_session* session) {
  guarded([&] { delete session; });
}

int flyball_step_begin(flyball_session* session) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.step_begin(); });
}

int flyball_set_speed(flyball_session* session, const char* type) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] {
    if (type == nullptr) return session->session.set_next_speed();
    session->session.set_speed(type);
  });
}

int flyball_begin(flyball_session* session, const char* type) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.begin(flyball::type_of(type)); });
}

int flyball_end(flyball_session* session, const char* type) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.end(flyball::type_of(type)); });
}

int flyball_step_end(flyball_session* session) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.step_end(); });
}

int flyball_set_straggler(flyball_session* session, int id, double delay_s, double degree) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded(
      [&] { session->session.set_straggler(flyball::straggler_notice(id, flyball::Seconds(delay_s), degree)); });
}

int flyball_profile_again(flyball_session* session) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.profile_again(); });
}

int flyball_session_get_state(flyball_session* session, flyball_session_state* state) {
  return guarded([&] {
    if (state == nullptr) throw flyball::UsageError("the state is null");
    flyball::check_size(state->size, offsetof(flyball_session_state, phase));
    const std::size_t size = std::min(state->size, sizeof *state);
    flyball_session_state whole{};
    whole.phase = FLYBALL_IDLE;
    if (session != nullptr) whole = flyball::state_of(session->session.state());
    whole.size = state->size;
    std::memcpy(state, &whole, size);
  });
}

const char* flyball_profile_csv(flyball_session* session) {
  thread_local std::string csv;
  guarded(
      [&] { csv = session != nullptr ? session->session.profile_csv() : "stage,instruction,frequency,time,energy\n"; });
  return csv.c_str();
}

int flyball_window_begin(flyball_session* session) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] { session->session.window_begin(); });
}

int flyball_window_end(flyball_session* session, double* time_s, double* energy_j) {
  if (time_s != nullptr) *time_s = 0.0;
  if (energy_j != nullptr) *energy_j = 0.0;
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] {
    const flyball::StepsEnergy window = session->session.window_end();
    if (time_s != nullptr) *time_s = window.time.value();
    if (energy_j != nullptr) *energy_j = window.energy.value();
  });
}

const char* flyball_last_error(void) { return flyball::last_error.c_str(); }

const char* flyball_version(void) { return FLYBALL_VERSION; }

}  // extern "C"
