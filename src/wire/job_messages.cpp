#include "wire/job_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_object.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRequest = "the request";
constexpr const char* kAnswer = "the server's answer";
constexpr NumberRange kAnyNumber{-1e300, 1e300, ""};
constexpr NumberRange kPowers{0.0, 1e6, "W"};
constexpr NumberRange kTimes{1e-9, 1e6, "s"};
constexpr NumberRange kClocks{0.0, 1e6, "MHz"};
constexpr NumberRange kEnergies{1e-12, 1e9, "J"};
constexpr NumberRange kDelays{0.0, 1e7, "s"};
constexpr NumberRange kSwitching{0.0, 60.0, "s"};
constexpr NumberRange kDegrees{1.0, 1000.0, ""};
constexpr NumberRange kStepTimes{-1e9, 1e9, "s"};
constexpr std::int64_t kMostSamples = 1'000'000'000'000;
constexpr std::size_t kLongestId = 128;
constexpr std::size_t kLongestName = 256;

bool is_made_of(std::string_view text, std::string_view marks) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           marks.find(c) != std::string_view::npos;
  });
}

std::string name_text(JsonObject& object, const std::string& field, std::size_t longest) {
  std::string text = object.find_text(field).value_or("");
  if (text.size() > longest) {
    object.refuse(field, fmt::format("has {} bytes", text.size()), fmt::format("give at most {}", longest));
  }
  return text;
}

std::string job_id(JsonObject& object) {
  std::string id = name_text(object, "id", kLongestId);
  if (!is_made_of(id, "._+-") || id == "." || id == "..") {
    object.refuse("id", "holds other characters than letters, digits and . _ + -", "choose another id");
  }
  return id;
}

std::string job_token(JsonObject& object) {
  std::string token = name_text(object, "token", kLongestId);
  if (!is_made_of(token, "_-")) {
    object.refuse("token", "holds other characters than letters, digits, _ and -", "take e.g. 64 hexadecimal digits");
  }
  if (!token.empty() && token.size() < kShortestToken) {
    object.refuse("token", fmt::format("has {} characters", token.size()),
                  fmt::format("give at least {}, drawn at random", kShortestToken));
  }
  return token;
}

// "blocking_power_w": 75, or [75, 70, 70, 75].
std::vector<Watts> powers(JsonObject& object, const nlohmann::json& json, const std::string& field,
                          std::size_t stages) {
  std::vector<Watts> all;
  const auto found = json.find(field);
  if (!object.has(field) || found->is_null()) return all;
  if (!found->is_array()) return {Watts(object.number(field, kPowers))};
  for (const nlohmann::json& item : *found) {
    const nlohmann::json one{{field, item}};
    all.emplace_back(JsonObject(one, kRequest).number(field, kPowers));
  }
  if (all.size() != 1 && all.size() != stages) {
    object.refuse(field, fmt::format("has {} entries for {} stages", all.size(), stages),
                  "give one number, or one per stage");
  }
  return all;
}

std::vector<int> memory_limits(JsonObject& object, const nlohmann::json& json, std::size_t stages) {
  constexpr const char* kField = "memory_limit";
  const auto found = json.find(kField);
  if (!object.has(kField) || found->is_null()) return {};
  if (!found->is_array()) return {static_cast<int>(object.integer(kField, 1, kMostMicrobatches))};
  std::vector<int> all;
  for (const std::int64_t limit : object.integers(kField, 1, kMostMicrobatches)) {
    all.push_back(static_cast<int>(limit));
  }
  if (all.size() > 1 && all.size() != stages) {
    object.refuse(kField, fmt::format("has {} entries for {} stages", all.size(), stages),
                  "give one number, or one per stage");
  }
  return all;
}

InstructionMeasurement read_measurement(JsonObject object) {
  InstructionMeasurement measurement;
  measurement.instruction = object.text("instruction");
  if (measurement.instruction.empty() || measurement.instruction.size() > 64 ||
      !is_made_of(measurement.instruction, "._")) {
    object.refuse("instruction", "is no name of an instruction", "give e.g. forward, backward or forward.1");
  }
  measurement.clock = Megahertz(object.number("clock_mhz", kClocks));
  measurement.time = Seconds(object.number("time_s", kTimes));
  measurement.energy = Joules(object.number("energy_j", kEnergies));
  measurement.samples = object.find_integer("samples", 1, kMostSamples).value_or(1);
  object.refuse_others();
  return measurement;
}

StragglerId straggler_id(JsonObject& object, const nlohmann::json& json) {
  constexpr const char* kField = "straggler";
  const auto found = json.find(kField);
  if (found == json.end() || !found->is_string()) return static_cast<int>(object.integer(kField, 0, kMostRanks - 1));
  std::string name = object.text(kField);
  if (name.empty() || name.size() > kLongestId || !is_made_of(name, "._+-:/")) {
    object.refuse(kField, "is no name", "give a rank's number, or up to 128 letters, digits and . _ + - : /");
  }
  return name;
}

Json json_of(const StragglerId& id) {
  return std::holds_alternative<int>(id) ? Json(std::get<int>(id)) : Json(std::get<std::string>(id));
}

double number_or(JsonObject& object, const std::string& name, double otherwise) {
  return object.find_number(name, kAnyNumber).value_or(otherwise);
}

std::int64_t count_or(JsonObject& object, const std::string& name, std::int64_t otherwise) {
  return object.find_integer(name, INT64_MIN, INT64_MAX).value_or(otherwise);
}

int small_count(JsonObject& object, const std::string& name) {
  return static_cast<int>(object.integer(name, 0, INT32_MAX));
}

const nlohmann::json& list_of(const nlohmann::json& json, const std::string& name) {
  static const nlohmann::json kNone = nlohmann::json::array();
  const auto found = json.find(name);
  return found == json.end() || !found->is_array() ? kNone : *found;
}

// ["forward", microbatch, chunk, clock in MHz]: an iteration has hundreds of them, and thousands of ranks ask.
ScheduledComputation read_computation(const nlohmann::json& json, std::size_t index) {
  const auto whole = [&](std::size_t i) { return json[i].is_number_integer() ? json[i].get<int>() : -1; };
  if (!json.is_array() || json.size() < 4 || !json[0].is_string() || whole(3) < 0) {
    throw InputError({kAnswer}, fmt::format("computations[{}] is no [instruction, microbatch, chunk, clock]", index),
                     "check that this is a Flyball server of the same version");
  }
  return {json[0].get<std::string>(), whole(1), whole(2), whole(3)};
}

// Servers of before had complete plans only, and did not say so.
std::optional<PlanStatus> find_plan_status(JsonObject& object) {
  const auto name = object.find_text("plan_status");
  if (!name) return std::nullopt;
  return *name == name_of(PlanStatus::kIncomplete) ? PlanStatus::kIncomplete : PlanStatus::kComplete;
}

StragglerState read_straggler_state(JsonObject object, const nlohmann::json& json) {
  StragglerState state;
  state.straggler = straggler_id(object, json);
  state.degree = number_or(object, "degree", 1.0);
  state.sequence = count_or(object, "sequence", -1);
  for (JsonObject& announced : object.objects("announced")) {
    state.announced.push_back({number_or(announced, "degree", 1.0), count_or(announced, "sequence", 0),
                               Seconds(number_or(announced, "remaining_s", 0.0))});
  }
  return state;
}

Json to_json(const StragglerState& state) {
  Json announced = Json::array();
  for (const auto& one : state.announced) {
    announced.push_back({{"degree", one.degree}, {"sequence", one.sequence}, {"remaining_s", one.remaining.value()}});
  }
  return {{"straggler", json_of(state.straggler)},
          {"degree", state.degree},
          {"sequence", state.sequence},
          {"announced", std::move(announced)}};
}

}  // namespace

std::string_view name_of(JobState state) {
  switch (state) {
    case JobState::kRegistering: return "registering";
    case JobState::kProfiling: return "profiling";
    case JobState::kPlanning: return "planning";
    case JobState::kReady: return "ready";
    case JobState::kFailed: return "failed";
  }
  return "";
}

std::optional<JobState> job_state_named(std::string_view name) {
  for (const JobState state : kAllJobStates) {
    if (name_of(state) == name) return state;
  }
  return std::nullopt;
}

// --- Requests ----------------------------------------------------------------------------------------------------

JobRequest read_job_request(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  JobRequest request;
  request.id = job_id(object);
  request.token = job_token(object);
  request.name = name_text(object, "name", kLongestName);
  request.planner = object.find_text("planner").value_or(request.planner);
  request.schedule = object.find_text("schedule").value_or(request.schedule);
  request.stages = static_cast<int>(object.integer("stages", 1, kMostStages));
  request.microbatches = static_cast<int>(object.integer("microbatches", 1, kMostMicrobatches));
  request.chunks = static_cast<int>(object.find_integer("chunks", 1, kMostChunks).value_or(1));
  request.data_parallel = static_cast<int>(object.find_integer("data_parallel", 1, kMostRanks).value_or(1));
  request.tensor_parallel = static_cast<int>(object.find_integer("tensor_parallel", 1, kMostRanks).value_or(1));
  const auto stages = static_cast<std::size_t>(request.stages);
  request.blocking_power = powers(object, json, "blocking_power_w", stages);
  request.memory_limit = memory_limits(object, json, stages);
  if (const auto unit = object.find_number("unit_time_s", {1e-6, 1e3, "s"})) request.unit_time = Seconds(*unit);
  request.noise = object.find_number("noise", {0.0, 0.5, ""}).value_or(0.0);
  request.switch_latency = Seconds(object.find_number("switch_latency_s", kSwitching).value_or(0.0));
  request.min_dwell = Seconds(object.find_number("min_dwell_s", kSwitching).value_or(0.0));
  if (const auto target = object.find_number("target_time_s", kTimes)) request.target_time = Seconds(*target);
  if (const auto patience = object.find_number("patience_s", kDelays)) request.patience = Seconds(*patience);
  request.executed_steps = object.has("executed_steps") && object.boolean("executed_steps");
  object.refuse_others();
  if (request.ranks() > kMostRanks) {
    object.refuse("data_parallel", fmt::format("makes a job of {} ranks", request.ranks()),
                  fmt::format("stages * data_parallel * tensor_parallel may be at most {}", kMostRanks));
  }
  return request;
}

RankRequest read_rank_request(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  RankRequest request;
  request.rank = static_cast<int>(object.integer("rank", 0, kMostRanks - 1));
  request.dp_rank = static_cast<int>(object.integer("dp_rank", 0, kMostRanks - 1));
  request.pp_rank = static_cast<int>(object.integer("pp_rank", 0, kMostStages - 1));
  request.tp_rank = static_cast<int>(object.integer("tp_rank", 0, kMostRanks - 1));
  for (const std::int64_t clock : object.integers("clocks_mhz", 0, 1'000'000)) {
    request.clocks_mhz.push_back(static_cast<int>(clock));
  }
  if (request.clocks_mhz.size() > kMostClocks) {
    object.refuse("clocks_mhz", fmt::format("has {} entries", request.clocks_mhz.size()),
                  fmt::format("give at most {}", kMostClocks));
  }
  object.refuse_others();
  return request;
}

MeasurementReport read_measurement_report(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  MeasurementReport report;
  report.rank = static_cast<int>(object.integer("rank", 0, kMostRanks - 1));
  report.sequence = object.integer("sequence", 0, kLastSequence);
  if (list_of(json, "measurements").size() > kMostMeasurements) {
    object.refuse("measurements", fmt::format("has {} entries", list_of(json, "measurements").size()),
                  fmt::format("send at most {} at a time", kMostMeasurements));
  }
  for (JsonObject& measurement : object.objects("measurements")) {
    report.measurements.push_back(read_measurement(std::move(measurement)));
  }
  report.begins_sweep = object.has("begins_sweep") && object.boolean("begins_sweep");
  object.refuse_others();
  return report;
}

StragglerNotice read_straggler_notice(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  StragglerNotice notice;
  notice.straggler = straggler_id(object, json);
  notice.degree = object.number("degree", kDegrees);
  notice.delay = Seconds(object.find_number("delay_s", kDelays).value_or(0.0));
  notice.sequence = object.find_integer("sequence", 0, kLastSequence);
  object.refuse_others();
  return notice;
}

StepReport read_step_report(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  StepReport report;
  report.rank = static_cast<int>(object.integer("rank", 0, kMostRanks - 1));
  report.version = object.integer("version", 1, INT64_MAX);
  report.step = object.integer("step", 0, INT64_MAX);
  const std::vector<double> begin = object.numbers("begin_s", kStepTimes);
  const std::vector<double> end = object.numbers("end_s", kStepTimes);
  object.refuse_others();
  if (begin.size() != end.size() || begin.size() > kMostStepTimes) {
    object.refuse("end_s", fmt::format("has {} entries, begin_s {}", end.size(), begin.size()),
                  fmt::format("give one of each for every computation, at most {}", kMostStepTimes));
  }
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] > end[i] || (i > 0 && begin[i] < end[i - 1])) {
      object.refuse(fmt::format("begin_s[{}]", i), "is out of order", "a stage runs one computation after the other");
    }
    report.computations.push_back({Seconds(begin[i]), Seconds(end[i])});
  }
  return report;
}

Json to_json(const JobRequest& request) {
  Json json = Json::object();
  if (!request.id.empty()) json["id"] = request.id;
  if (!request.token.empty()) json["token"] = request.token;
  json["name"] = request.name;
  json["planner"] = request.planner;
  json["schedule"] = request.schedule;
  json["stages"] = request.stages;
  json["microbatches"] = request.microbatches;
  json["chunks"] = request.chunks;
  json["data_parallel"] = request.data_parallel;
  json["tensor_parallel"] = request.tensor_parallel;
  if (!request.blocking_power.empty()) {
    Json& watts = json["blocking_power_w"] = Json::array();
    for (const Watts power : request.blocking_power) watts.push_back(power.value());
  }
  if (!request.memory_limit.empty()) json["memory_limit"] = request.memory_limit;
  json["unit_time_s"] = request.unit_time.value();
  json["noise"] = request.noise;
  // Left out where they are 0: servers that do not know them refuse them.
  if (request.switch_latency > Seconds(0)) json["switch_latency_s"] = request.switch_latency.value();
  if (request.min_dwell > Seconds(0)) json["min_dwell_s"] = request.min_dwell.value();
  if (request.target_time) json["target_time_s"] = request.target_time->value();
  json["patience_s"] = request.patience.value();
  if (request.executed_steps) json["executed_steps"] = true;
  return json;
}

Json to_json(const RankRequest& request) {
  return {{"rank", request.rank},
          {"dp_rank", request.dp_rank},
          {"pp_rank", request.pp_rank},
          {"tp_rank", request.tp_rank},
          {"clocks_mhz", request.clocks_mhz}};
}

Json to_json(const MeasurementReport& report) {
  Json all = Json::array();
  for (const InstructionMeasurement& one : report.measurements) {
    all.push_back({{"instruction", one.instruction},
                   {"clock_mhz", one.clock.value()},
                   {"time_s", one.time.value()},
                   {"energy_j", one.energy.value()},
                   {"samples", one.samples}});
  }
  Json json = {{"rank", report.rank}, {"sequence", report.sequence}, {"measurements", std::move(all)}};
  // Left out where it is not meant: servers that do not know it refuse it.
  if (report.begins_sweep) json["begins_sweep"] = true;
  return json;
}

Json to_json(const StragglerNotice& notice) {
  Json json = {{"straggler", json_of(notice.straggler)}, {"degree", notice.degree}, {"delay_s", notice.delay.value()}};
  if (notice.sequence) json["sequence"] = *notice.sequence;
  return json;
}

Json to_json(const StepReport& report) {
  Json begin = Json::array();
  Json end = Json::array();
  for (const StepReport::Times& times : report.computations) {
    begin.push_back(times.begin.value());
    end.push_back(times.end.value());
  }
  return {{"rank", report.rank},
          {"version", report.version},
          {"step", report.step},
          {"begin_s", std::move(begin)},
          {"end_s", std::move(end)}};
}

// --- Answers -----------------------------------------------------------------------------------------------------

JobRegistered read_job_registered(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  return {object.text("job"), object.find_text("token").value_or(""), object.boolean("created")};
}

Json to_json(const JobRegistered& answer) {
  Json json = {{"job", answer.job}};
  if (!answer.token.empty()) json["token"] = answer.token;
  json["created"] = answer.created;
  return json;
}

RankRegistered read_rank_registered(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  return {small_count(object, "rank"), object.boolean("created"), count_or(object, "last_sequence", -1),
          object.boolean("profiled")};
}

Json to_json(const RankRegistered& answer) {
  return {{"rank", answer.rank},
          {"created", answer.created},
          {"last_sequence", answer.last_sequence},
          {"profiled", answer.profiled}};
}

MeasurementsTaken read_measurements_taken(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  return {count_or(object, "last_sequence", 0), object.boolean("duplicate")};
}

Json to_json(const MeasurementsTaken& answer) {
  return {{"last_sequence", answer.last_sequence}, {"duplicate", answer.duplicate}};
}

StragglerTaken read_straggler_taken(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  return {count_or(object, "sequence", 0), object.boolean("stale")};
}

Json to_json(const StragglerTaken& answer) { return {{"sequence", answer.sequence}, {"stale", answer.stale}}; }

std::string_view name_of(PlanStatus status) { return status == PlanStatus::kComplete ? "complete" : "incomplete"; }

JobStatus read_job_status(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  JobStatus status;
  status.job = object.text("job");
  status.name = object.find_text("name").value_or("");
  const std::string state = object.text("state");
  const auto known = job_state_named(state);
  if (!known) object.refuse("state", fmt::format("is '{}'", state), "check that client and server fit");
  status.state = *known;
  status.planner = object.find_text("planner").value_or("");
  status.schedule = object.find_text("schedule").value_or("");
  status.stages = small_count(object, "stages");
  status.microbatches = small_count(object, "microbatches");
  status.data_parallel = small_count(object, "data_parallel");
  status.tensor_parallel = small_count(object, "tensor_parallel");
  status.ranks = count_or(object, "ranks", 0);
  status.ranks_registered = count_or(object, "ranks_registered", 0);
  status.ranks_profiled = count_or(object, "ranks_profiled", 0);
  for (const std::int64_t rank : object.integers("waiting_for", 0, kMostRanks)) {
    status.waiting_for.push_back(static_cast<int>(rank));
  }
  status.planning_progress = number_or(object, "planning_progress", 0.0);
  status.version = count_or(object, "version", 0);
  status.frontier_version = count_or(object, "frontier_version", 0);
  status.plan_status = find_plan_status(object);
  status.trouble = object.find_text("trouble").value_or("");
  const nlohmann::json& stragglers = list_of(json, "stragglers");
  const std::vector<JsonObject> objects = object.objects("stragglers");
  for (std::size_t i = 0; i < objects.size(); ++i) {
    status.stragglers.push_back(read_straggler_state(objects[i], stragglers[i]));
  }
  return status;
}

Json to_json(const JobStatus& status) {
  Json stragglers = Json::array();
  for (const StragglerState& state : status.stragglers) stragglers.push_back(to_json(state));
  return {{"job", status.job},
          {"name", status.name},
          {"state", name_of(status.state)},
          {"planner", status.planner},
          {"schedule", status.schedule},
          {"stages", status.stages},
          {"microbatches", status.microbatches},
          {"data_parallel", status.data_parallel},
          {"tensor_parallel", status.tensor_parallel},
          {"ranks", status.ranks},
          {"ranks_registered", status.ranks_registered},
          {"ranks_profiled", status.ranks_profiled},
          {"waiting_for", status.waiting_for},
          {"planning_progress", status.planning_progress},
          {"version", status.version},
          {"frontier_version", status.frontier_version},
          {"plan_status", status.plan_status ? Json(name_of(*status.plan_status)) : Json(nullptr)},
          {"trouble", status.trouble},
          {"stragglers", std::move(stragglers)}};
}

FrontierReport read_frontier_report(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  FrontierReport report;
  report.job = object.text("job");
  report.planner = object.find_text("planner").value_or("");
  report.plan_status = find_plan_status(object).value_or(PlanStatus::kComplete);
  report.version = count_or(object, "version", 0);
  report.t_min = Seconds(object.number("t_min_s", kAnyNumber));
  report.t_star = Seconds(object.number("t_star_s", kAnyNumber));
  report.t_least_total = Seconds(number_or(object, "t_least_total_s", 0.0));
  report.base_point = static_cast<std::size_t>(count_or(object, "base_point", 0));
  report.limited_by = object.find_text("limited_by").value_or("");
  report.expected_saving_pct = object.find_number("expected_saving_pct", kAnyNumber);
  report.expected_saving_deviation_pct = object.find_number("expected_saving_deviation_pct", kAnyNumber);
  report.max_clock_time = Seconds(object.number("max_clock_time_s", kAnyNumber));
  report.max_clock_energy = Joules(object.number("max_clock_energy_j", kAnyNumber));
  for (JsonObject& point : object.objects("points")) {
    FrontierPointReport one{Seconds(point.number("time_s", kAnyNumber)), Joules(point.number("energy_j", kAnyNumber)),
                            std::nullopt};
    if (const auto bound = point.find_number("lower_bound_j", kAnyNumber)) one.lower_bound = Joules(*bound);
    report.points.push_back(one);
  }
  return report;
}

Json to_json(const FrontierReport& report) {
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json points = Json::array();
  for (const FrontierPointReport& point : report.points) {
    points.push_back({{"time_s", point.time.value()},
                      {"energy_j", point.energy.value()},
                      {"lower_bound_j", point.lower_bound ? Json(point.lower_bound->value()) : Json(nullptr)}});
  }
  return {{"job", report.job},
          {"planner", report.planner},
          {"plan_status", name_of(report.plan_status)},
          {"version", report.version},
          {"t_min_s", report.t_min.value()},
          {"t_star_s", report.t_star.value()},
          {"t_least_total_s", report.t_least_total.value()},
          {"base_point", report.base_point},
          {"limited_by", report.limited_by},
          {"expected_saving_pct", or_null(report.expected_saving_pct)},
          {"expected_saving_deviation_pct", or_null(report.expected_saving_deviation_pct)},
          {"max_clock_time_s", report.max_clock_time.value()},
          {"max_clock_energy_j", report.max_clock_energy.value()},
          {"points", std::move(points)}};
}

RankSchedule read_rank_schedule(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  RankSchedule schedule;
  schedule.job = object.text("job");
  schedule.rank = small_count(object, "rank");
  schedule.stage = small_count(object, "stage");
  schedule.version = object.integer("version", 1, INT64_MAX);
  schedule.point = static_cast<std::size_t>(object.integer("point", 0, INT64_MAX));
  schedule.iteration_time = Seconds(object.number("iteration_time_s", kAnyNumber));
  schedule.iteration_energy = Joules(object.number("iteration_energy_j", kAnyNumber));
  schedule.allowed_time = Seconds(object.number("allowed_time_s", kAnyNumber));
  schedule.report_steps = object.has("report_steps") && object.boolean("report_steps");
  const nlohmann::json& computations = list_of(json, "computations");
  for (std::size_t i = 0; i < computations.size(); ++i) {
    schedule.computations.push_back(read_computation(computations[i], i));
  }
  return schedule;
}

Json to_json(const std::vector<ScheduledComputation>& computations) {
  Json all = Json::array();
  for (const ScheduledComputation& one : computations) {
    all.push_back(Json::array({one.instruction, one.microbatch, one.chunk, one.clock_mhz}));
  }
  return all;
}

Json to_json(const RankSchedule& schedule) {
  return {{"job", schedule.job},
          {"rank", schedule.rank},
          {"stage", schedule.stage},
          {"version", schedule.version},
          {"point", schedule.point},
          {"iteration_time_s", schedule.iteration_time.value()},
          {"iteration_energy_j", schedule.iteration_energy.value()},
          {"allowed_time_s", schedule.allowed_time.value()},
          {"report_steps", schedule.report_steps},
          {"computations", to_json(schedule.computations)}};
}

}  // namespace flyball
