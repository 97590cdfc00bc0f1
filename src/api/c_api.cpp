// include/flyball/flyball.h on client/session.h, client/agent_client.h and account/account_run.h; its elastic jobs are
// in c_elastic.cpp. Exceptions end here: each becomes a code, and its words are kept (guarded.h). Structures carry
// their size, so that callers that were compiled with shorter ones still work.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "account/account_options.h"
#include "account/footprint_file.h"
#include "api/guarded.h"
#include "api/session_plan.h"
#include "base/error.h"
#include "base/record.h"
#include "base/text.h"
#include "client/agent_client.h"
#include "client/clock_sinks.h"
#include "client/session.h"
#include "flyball/flyball.h"

struct flyball_session {
  flyball_session(flyball::SessionOptions options, flyball::SessionGpu gpu)
      : session(std::move(options), std::move(gpu)) {}

  flyball::Session session;
  std::vector<flyball_computation> order;  // in use
  std::vector<flyball_transfers> transfers;
};

struct flyball_footprint {
  flyball::Footprint footprint;
  std::string json;
};

namespace flyball {
namespace {

std::string text(const char* value) { return value == nullptr ? std::string() : std::string(value); }

std::string_view type_of(const char* type) {
  if (type == nullptr) throw UsageError("the instruction's type is null");
  return type;
}

// The options by the names that client/session_options.cpp gives them; memory_limit, a list, is not among them.
template <class Visit>
void each_option(const Visit& visit) {
  using O = flyball_session_options;
  const std::tuple all{std::pair{"server", &O::server},
                       std::pair{"ca_file", &O::ca_file},
                       std::pair{"job", &O::job},
                       std::pair{"token", &O::token},
                       std::pair{"registration_token", &O::registration_token},
                       std::pair{"stages", &O::stages},
                       std::pair{"microbatches", &O::microbatches},
                       std::pair{"chunks", &O::chunks},
                       std::pair{"data_parallel", &O::data_parallel},
                       std::pair{"tensor_parallel", &O::tensor_parallel},
                       std::pair{"schedule", &O::schedule},
                       std::pair{"planner", &O::planner},
                       std::pair{"executed_steps", &O::executed_steps},
                       std::pair{"executes_order", &O::executes_order},
                       std::pair{"order", &O::order},
                       std::pair{"transfers_occupy_both", &O::transfers_occupy_both},
                       std::pair{"places_transfers", &O::places_transfers},
                       std::pair{"blocking_w", &O::blocking_w},
                       std::pair{"noise", &O::noise},
                       std::pair{"switch_latency_s", &O::switch_latency_s},
                       std::pair{"clocks_ahead", &O::clocks_ahead},
                       std::pair{"min_dwell_s", &O::min_dwell_s},
                       std::pair{"max_power_w", &O::max_power_w},
                       std::pair{"max_ramp_w_per_s", &O::max_ramp_w_per_s},
                       std::pair{"ramp_window_s", &O::ramp_window_s},
                       std::pair{"rank", &O::rank},
                       std::pair{"dp_rank", &O::dp_rank},
                       std::pair{"pp_rank", &O::pp_rank},
                       std::pair{"tp_rank", &O::tp_rank},
                       std::pair{"gpu", &O::gpu},
                       std::pair{"clocks", &O::clocks},
                       std::pair{"plan", &O::plan},
                       std::pair{"plan_time_ratio", &O::plan_time_ratio},
                       std::pair{"profile", &O::profile},
                       std::pair{"steps_per_clock", &O::steps_per_clock},
                       std::pair{"rises_to_stop", &O::rises_to_stop},
                       std::pair{"clock_stride", &O::clock_stride},
                       std::pair{"settle_s", &O::settle_s},
                       std::pair{"sampling_s", &O::sampling_s},
                       std::pair{"clock_poll_s", &O::clock_poll_s},
                       std::pair{"time_scale", &O::time_scale}};
  std::apply([&](auto... option) { (visit(option.first, option.second), ...); }, all);
}

SessionOptions options_of(const flyball_session_options& from) {
  nlohmann::json given;
  each_option([&](const char* name, auto member) {
    const auto value = from.*member;
    bool set = true;
    if constexpr (std::is_pointer_v<decltype(value)>) set = value != nullptr;
    if (set) given[name] = value;
  });
  for (const char* name :
       {"profile", "executed_steps", "executes_order", "transfers_occupy_both", "places_transfers", "clocks_ahead"}) {
    given[name] = given[name].get<int>() != 0;
  }
  if (from.memory_limit != nullptr && from.stages > 0 && from.stages <= kMostStages) {
    given["memory_limit"] = std::vector<int>(from.memory_limit, from.memory_limit + from.stages);
  }
  SessionOptions options = read_options<SessionOptions>("the options", given);
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
  nlohmann::ordered_json standard;
  for (const FieldDescription& field : record_of<SessionOptions>().fields()) standard[field.name] = field.standard;
  each_option([&](const char* name, auto member) {
    auto& value = options.*member;
    const nlohmann::ordered_json& known = standard.at(name);
    if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(value)>>) {
      if (!known.is_null()) value = known.template get<std::remove_reference_t<decltype(value)>>();
    }
  });
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

int promise_code(PromiseVerdict verdict) {
  switch (verdict) {
    case PromiseVerdict::kUnknown: return FLYBALL_UNKNOWN;
    case PromiseVerdict::kKept: return FLYBALL_KEPT;
    case PromiseVerdict::kSlower: return FLYBALL_SLOWER;
    case PromiseVerdict::kDearer: return FLYBALL_DEARER;
  }
  return FLYBALL_UNKNOWN;
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
  state.clock_age_p50_s = from.clock_age_p50.value();
  state.clock_age_p99_s = from.clock_age_p99.value();
  state.reconfiguring = from.reconfiguring ? 1 : 0;
  state.straggler_w = from.straggler_power.value();
  state.order = from.order;
  state.promise = promise_code(from.promise);
  state.at_maximum_s = from.at_maximum.value();
  state.compared_iterations = from.savings.iterations;
  state.compared_energy_j = from.savings.energy.value();
  state.compared_energy_at_maximum_j = from.savings.energy_at_maximum.value();
  state.compared_energy_error_j = from.savings.energy_error.value();
  state.power_limit_w = from.clocks.limit.value();
  return state;
}

// Callers may have been compiled with an older, shorter structure: a field that they lack keeps its default, or is not
// written.
void check_size(std::size_t size, std::size_t least) {
  if (size < least || size > (1u << 16u)) {
    throw UsageError("the structure's size is not set; use sizeof, or flyball_session_options_init");
  }
}

// Fills a structure of `size` bytes, which may be shorter or longer than this library's; what lies beyond this
// library's becomes zero.
template <class Options>
void initialise(Options* options, std::size_t size, const Options& defaults) {
  check_size(size, offsetof(Options, size) + sizeof options->size);
  std::memset(static_cast<void*>(options), 0, size);
  std::memcpy(static_cast<void*>(options), &defaults, std::min(size, sizeof defaults));
  options->size = size;
}

// --- Accounting sessions -------------------------------------------------------------------------------------------

flyball_account_options account_defaults() {
  flyball_account_options options{};
  options.size = sizeof options;
  const AccountSessionRequest standard;
  options.cpus = standard.cpus ? 1 : 0;
  options.row_period_s = standard.row_period.value();
  return options;
}

AgentClient agent_at(const char* agent) {
  const std::string where = text(agent);
  return AgentClient(where.empty() ? default_agent_endpoint() : parse_endpoint(where));
}

AccountSessionRequest session_request(nlohmann::json given, const char* name) {
  const std::string chosen = text(name);
  given["name"] = chosen.empty() ? "default" : chosen;
  return read_options<AccountSessionRequest>("the options", given);
}

AccountSessionRequest session_request(const flyball_account_options& from) {
  nlohmann::json given{{"cpus", from.cpus != 0}, {"row_period_s", from.row_period_s}};
  if (from.gpus != nullptr) given["gpus"] = std::vector<unsigned>(from.gpus, from.gpus + from.gpu_count);
  return session_request(std::move(given), from.name);
}

std::string account_name(const char* name) { return session_request(nlohmann::json::object(), name).name; }

int state_code(AccountSessionState state) {
  switch (state) {
    case AccountSessionState::kRecording: return FLYBALL_ACCOUNT_RECORDING;
    case AccountSessionState::kStopped: return FLYBALL_ACCOUNT_STOPPED;
    case AccountSessionState::kTooLong: return FLYBALL_ACCOUNT_TOO_LONG;
    case AccountSessionState::kTooLarge: return FLYBALL_ACCOUNT_TOO_LARGE;
  }
  return FLYBALL_ACCOUNT_STOPPED;
}

// Asks the agent with `ask`, and fills `state` unless it is null.
template <class Ask>
int tell_account_state(const char* agent, const char* name, flyball_account_state* state, const Ask& ask) {
  thread_local std::string devices;
  thread_local std::string ended;
  thread_local std::string failures;
  return guarded([&] {
    if (state != nullptr) check_size(state->size, offsetof(flyball_account_state, state));
    AgentClient client = agent_at(agent);
    const AccountSessionInfo session = ask(client, account_name(name));
    if (state == nullptr) return;
    devices = fmt::format("{}", fmt::join(session.devices, ","));
    ended = session.ended;
    failures = fmt::format("{}", fmt::join(session.failures, "\n"));
    flyball_account_state whole{};
    whole.size = state->size;
    whole.state = state_code(session.state);
    whole.begin_unix_s = session.begin.value();
    whole.length_s = session.length.value();
    whole.rows = session.rows;
    whole.bytes = session.bytes;
    whole.devices = devices.c_str();
    whole.ended = ended.c_str();
    whole.failures = failures.c_str();
    std::memcpy(state, &whole, std::min(state->size, sizeof whole));
  });
}

// A null session does nothing.
template <class Do>
int with(flyball_session* session, const Do& act) {
  return session == nullptr ? FLYBALL_OK : guarded([&] { act(session->session); });
}

}  // namespace
}  // namespace flyball

using flyball::guarded;
using flyball::with;

extern "C" {

void flyball_session_options_init(flyball_session_options* options, size_t size) {
  if (options == nullptr || size < sizeof options->size) return;
  options->size = 0;  // refused by flyball_session_open, should there be no defaults
  guarded([&] { flyball::initialise(options, size, flyball::defaults()); });
}

flyball_session* flyball_session_open(const flyball_session_options* options) {
  flyball_session* session = nullptr;
  guarded([&] {
    if (options == nullptr) throw flyball::UsageError("the options are null");
    flyball::check_size(options->size, offsetof(flyball_session_options, server));
    flyball_session_options whole = flyball::defaults();
    std::memcpy(&whole, options, std::min(options->size, sizeof whole));
    flyball::SessionOptions chosen = flyball::options_of(whole);
    flyball::SessionGpu gpu = flyball::open_session_gpu(chosen);
    flyball::take_plan_file(chosen, gpu);
    session = std::make_unique<flyball_session>(std::move(chosen), std::move(gpu)).release();
  });
  return session;
}

void flyball_session_close(flyball_session* session) {
  guarded([&] { delete session; });
}

int flyball_step_begin(flyball_session* session) {
  return with(session, [&](auto& open) { open.step_begin(); });
}

int flyball_set_speed(flyball_session* session, const char* type) {
  return with(session, [&](auto& open) { type == nullptr ? open.set_next_speed() : open.set_speed(type); });
}

int flyball_begin(flyball_session* session, const char* type) {
  return with(session, [&](auto& open) { open.begin(flyball::type_of(type)); });
}

int flyball_end(flyball_session* session, const char* type) {
  return with(session, [&](auto& open) { open.end(flyball::type_of(type)); });
}

int flyball_step_end(flyball_session* session) {
  return with(session, [&](auto& open) { open.step_end(); });
}

int flyball_set_speed_in(flyball_session* session, const char* type, void* stream) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] {
    if (type == nullptr) return session->session.set_next_speed_in(stream);
    session->session.set_speed_in(type, stream);
  });
}

int flyball_begin_in(flyball_session* session, const char* type, void* stream) {
  return with(session, [&](auto& open) { open.begin_in(flyball::type_of(type), stream); });
}

int flyball_end_in(flyball_session* session, const char* type, void* stream) {
  return with(session, [&](auto& open) { open.end_in(flyball::type_of(type), stream); });
}

int flyball_set_memory(flyball_session* session, int64_t microbatch_bytes, int64_t activation_bytes) {
  return with(session, [&](auto& open) { open.set_memory(microbatch_bytes, activation_bytes); });
}

int64_t flyball_order_held(flyball_session* session) {
  int64_t order = 0;
  if (session != nullptr) guarded([&] { order = session->session.order_held(); });
  return order;
}

int flyball_use_order(flyball_session* session, int64_t order) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded([&] {
    session->session.use_order(order);
    session->order.clear();
    session->transfers.clear();
    for (const flyball::ScheduledComputation& one : session->session.order_in_use()) {
      session->order.push_back({one.instruction.c_str(), one.microbatch, one.chunk, one.clock_mhz});
    }
    for (const auto& [send_forward, receive_forward, send_backward, receive_backward] :
         session->session.transfers_in_use()) {
      session->transfers.push_back({send_forward, receive_forward, send_backward, receive_backward});
    }
  });
}

size_t flyball_order_in_use(flyball_session* session, const flyball_computation** computations) {
  const bool none = session == nullptr || session->order.empty();
  if (computations != nullptr) *computations = none ? nullptr : session->order.data();
  return none ? 0 : session->order.size();
}

size_t flyball_transfers_in_use(flyball_session* session, const flyball_transfers** transfers) {
  const bool none = session == nullptr || session->transfers.empty();
  if (transfers != nullptr) *transfers = none ? nullptr : session->transfers.data();
  return none ? 0 : session->transfers.size();
}

int flyball_set_straggler(flyball_session* session, int id, double delay_s, double degree) {
  if (session == nullptr) return FLYBALL_OK;
  return guarded(
      [&] { session->session.set_straggler(flyball::straggler_notice(id, flyball::Seconds(delay_s), degree)); });
}

int flyball_profile_again(flyball_session* session) {
  return with(session, [&](auto& open) { open.profile_again(); });
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
  return with(session, [&](auto& open) { open.window_begin(); });
}

int flyball_window_end(flyball_session* session, double* time_s, double* energy_j) {
  if (time_s != nullptr) *time_s = 0.0;
  if (energy_j != nullptr) *energy_j = 0.0;
  if (session == nullptr) return FLYBALL_OK;
  std::string problem;
  const int result = guarded([&] {
    const flyball::StepsEnergy window = session->session.window_end();
    if (time_s != nullptr) *time_s = window.time.value();
    if (energy_j != nullptr) *energy_j = window.energy.value();
    problem = window.problem;
  });
  if (result != FLYBALL_OK || problem.empty()) return result;
  return flyball::failed(FLYBALL_INCOMPLETE, problem.c_str());
}

void flyball_account_options_init(flyball_account_options* options, size_t size) {
  if (options == nullptr || size < sizeof options->size) return;
  options->size = 0;  // refused by flyball_account_start, should the size be impossible
  guarded([&] { flyball::initialise(options, size, flyball::account_defaults()); });
}

int flyball_account_start(const flyball_account_options* options) {
  return guarded([&] {
    flyball_account_options whole = flyball::account_defaults();
    if (options != nullptr) {
      flyball::check_size(options->size, offsetof(flyball_account_options, agent));
      std::memcpy(&whole, options, std::min(options->size, sizeof whole));
    }
    const flyball::AccountSessionRequest request = flyball::session_request(whole);
    flyball::agent_at(whole.agent).start_session(request);
  });
}

int flyball_account_stop(const char* agent, const char* name, flyball_account_state* state) {
  return flyball::tell_account_state(agent, name, state, [](flyball::AgentClient& client, const std::string& session) {
    return client.stop_session(session);
  });
}

int flyball_account_get_state(const char* agent, const char* name, flyball_account_state* state) {
  return flyball::tell_account_state(agent, name, state, [](flyball::AgentClient& client, const std::string& session) {
    return client.session(session);
  });
}

int flyball_account_read(const char* agent, const char* name, flyball_account_sink sink, void* user) {
  return guarded([&] {
    if (sink == nullptr) throw flyball::UsageError("the sink is null");
    flyball::agent_at(agent).session_trace(flyball::account_name(name), [&](const std::string& piece) {
      return sink(user, piece.data(), piece.size()) == 0;
    });
  });
}

int flyball_account_write(const char* agent, const char* name, const char* path) {
  return guarded([&] {
    if (path == nullptr || *path == '\0') throw flyball::UsageError("no file is named");
    flyball::write_text_file(path, flyball::agent_at(agent).session_trace(flyball::account_name(name)));
  });
}

int flyball_account_drop(const char* agent, const char* name) {
  return guarded([&] { flyball::agent_at(agent).drop_session(flyball::account_name(name)); });
}

flyball_footprint* flyball_footprint_open(const char* options) {
  flyball_footprint* made = nullptr;
  guarded([&] {
    if (options == nullptr) throw flyball::UsageError("the options are null");
    const flyball::AccountRequest request = flyball::read_account_options("the options", options);
    flyball::AccountResult result = flyball::account_runs(request);
    auto footprint = std::make_unique<flyball_footprint>();
    footprint->footprint = std::move(result.asked(request));
    footprint->json = flyball::footprint_json(footprint->footprint, result.notes);
    made = footprint.release();
  });
  return made;
}

void flyball_footprint_close(flyball_footprint* footprint) { delete footprint; }

int flyball_footprint_get_row(const flyball_footprint* footprint, size_t index, flyball_footprint_row* row) {
  return guarded([&] {
    if (footprint == nullptr || row == nullptr) throw flyball::UsageError("the footprint or the row is null");
    flyball::check_size(row->size, offsetof(flyball_footprint_row, device));
    const auto& rows = footprint->footprint.rows;
    if (index >= rows.size()) throw flyball::UsageError(fmt::format("the footprint has {} rows", rows.size()));
    const flyball::FootprintRow& from = rows[index];
    flyball_footprint_row whole{};
    whole.size = row->size;
    whole.name = from.name.c_str();
    whole.device = from.device.c_str();
    whole.phase = flyball::name_of(from.phase).data();
    whole.energy_j = from.energy.value();
    whole.busy_s = from.busy.value();
    whole.powered_s = from.powered.value();
    whole.energy_std_j = from.energy_deviation.value();
    whole.energy_error_j = from.error.value();
    whole.group = static_cast<int>(from.group);
    std::memcpy(row, &whole, std::min(row->size, sizeof whole));
  });
}

const char* flyball_footprint_json(const flyball_footprint* footprint) {
  return footprint == nullptr ? "" : footprint->json.c_str();
}

const char* flyball_last_error(void) { return flyball::last_error.c_str(); }

const char* flyball_version(void) { return FLYBALL_VERSION; }

}  // extern "C"
