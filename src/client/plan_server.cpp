// One HTTP client for the job's token, and a second one for the registration token where there is one, whose
// connection is closed after joining.
#include "client/plan_server.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/json_object.h"
#include "base/record.h"
#include "base/token_file.h"
#include "net/json_response.h"
#include "net/query_string.h"

namespace flyball {
namespace {

constexpr Seconds kAnswerTime{10.0};

HttpClient::Options options_with(std::string token, Seconds longest_wait, const std::string& ca_file) {
  HttpClient::Options options;
  options.timeout = kAnswerTime + longest_wait;
  options.token = std::move(token);
  options.ca_file = ca_file;
  return options;
}

}  // namespace

std::string default_registration_token() {
  if (const char* token = std::getenv("FLYBALL_REGISTRATION_TOKEN"); token != nullptr && *token != '\0') return token;
  const char* file = std::getenv("FLYBALL_REGISTRATION_TOKEN_FILE");
  if (file == nullptr || *file == '\0') return {};
  return read_token_file(file);
}

PlanServer::PlanServer(const std::string& address, std::string token, Seconds longest_wait, const std::string& ca_file,
                       const std::string& registration_token)
    : client_(parse_endpoint(address), options_with(std::move(token), longest_wait, ca_file)) {
  if (registration_token.empty()) return;
  registering_.emplace(parse_endpoint(address), options_with(registration_token, longest_wait, ca_file));
}

void PlanServer::interrupt() {
  client_.interrupt();
  if (registering_) registering_->interrupt();
}

Response PlanServer::ask(std::string_view method, const std::string& target, const std::string& body) {
  return ask(client_, method, target, body);
}

Response PlanServer::ask(HttpClient& client, std::string_view method, const std::string& target,
                         const std::string& body) {
  Response response = client.request(method, target, body);
  if (response.status < 200 || response.status > 299) {
    throw ServerRefusal(response.status,
                        fmt::format("{} answered {} {} to {} {}: {}", address(), response.status,
                                    reason_phrase(response.status), method, target, detail_of_problem(response.body)));
  }
  return response;
}

RankRegistered PlanServer::join(const JobRequest& job, const RankRequest& rank) {
  ask(registering_ ? *registering_ : client_, "POST", "/v1/jobs", to_json(job).dump());
  if (registering_) registering_->disconnect();
  const Response response = ask("POST", fmt::format("/v1/jobs/{}/ranks", percent_encode(job.id)), to_json(rank).dump());
  return read_message<RankRegistered>(parse_json(address(), response.body));
}

JobList PlanServer::jobs() { return read_message<JobList>(parse_json(address(), ask("GET", "/v1/jobs").body)); }

WatchedNodes PlanServer::nodes() {
  return read_message<WatchedNodes>(parse_json(address(), ask("GET", "/v1/nodes").body));
}

JobRanks PlanServer::ranks(const std::string& job) {
  const Response response = ask("GET", fmt::format("/v1/jobs/{}/ranks", percent_encode(job)));
  return read_message<JobRanks>(parse_json(address(), response.body));
}

JobStatus PlanServer::status(const std::string& job) {
  const Response response = ask("GET", fmt::format("/v1/jobs/{}", percent_encode(job)));
  return read_message<JobStatus>(parse_json(address(), response.body));
}

FrontierReport PlanServer::frontier(const std::string& job) {
  const Response response = ask("GET", fmt::format("/v1/jobs/{}/frontier", percent_encode(job)));
  return read_message<FrontierReport>(parse_json(address(), response.body));
}

MeasuredIteration PlanServer::iteration(const std::string& job) {
  const Response response = ask("GET", fmt::format("/v1/jobs/{}/iteration", percent_encode(job)));
  return read_message<MeasuredIteration>(parse_json(address(), response.body));
}

MeasurementsTaken PlanServer::send(const std::string& job, const MeasurementReport& report) {
  const Response response =
      ask("POST", fmt::format("/v1/jobs/{}/measurements", percent_encode(job)), to_json(report).dump());
  return read_message<MeasurementsTaken>(parse_json(address(), response.body));
}

void PlanServer::finish_profiling(const std::string& job, int rank) {
  ask("POST", fmt::format("/v1/jobs/{}/ranks/{}/profiled", percent_encode(job), rank), "{}");
}

std::optional<RankSchedule> PlanServer::schedule(const std::string& job, int rank, std::int64_t version, Seconds wait) {
  const Response response = ask("GET", fmt::format("/v1/jobs/{}/ranks/{}/schedule?after_version={}&wait_s={}",
                                                   percent_encode(job), rank, version, wait.value()));
  if (response.status == 204) return std::nullopt;
  return read_message<RankSchedule>(parse_json(address(), response.body));
}

StragglerTaken PlanServer::set_straggler(const std::string& job, const StragglerNotice& notice) {
  const Response response =
      ask("POST", fmt::format("/v1/jobs/{}/stragglers", percent_encode(job)), to_json(notice).dump());
  return read_message<StragglerTaken>(parse_json(address(), response.body));
}

StepTaken PlanServer::send(const std::string& job, const StepReport& report) {
  const Response response = ask("POST", fmt::format("/v1/jobs/{}/steps", percent_encode(job)), to_json(report).dump());
  if (response.status == 204) return {};  // of a server that knows no handovers
  return read_message<StepTaken>(parse_json(address(), response.body));
}

void PlanServer::send(const std::string& job, const OrderReport& report) {
  ask("POST", fmt::format("/v1/jobs/{}/orders", percent_encode(job)), to_json(report).dump());
}

void PlanServer::send(const std::string& job, const PromiseReport& report) {
  ask("POST", fmt::format("/v1/jobs/{}/promises", percent_encode(job)), to_json(report).dump());
}

void PlanServer::send(const std::string& job, const PaceReport& report) {
  ask("POST", fmt::format("/v1/jobs/{}/paces", percent_encode(job)), to_json(report).dump());
}

void PlanServer::end(const std::string& job, int rank) {
  ask("POST", fmt::format("/v1/jobs/{}/ranks/{}/ended", percent_encode(job), rank), "{}");
}

}  // namespace flyball
