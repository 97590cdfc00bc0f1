// A client of the planning server, for a rank or for somebody who watches. Calls wait for the server's answer. Not
// thread-safe, except for interrupt().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/client.h"
#include "wire/fleet_messages.h"
#include "wire/iteration_messages.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"

namespace flyball {

// Thrown where the server refuses a request, rather than failing to answer; trying the same again soon is of no use.
class ServerRefusal : public SystemError {
 public:
  ServerRefusal(unsigned status, const std::string& message) : SystemError(message), status_(status) {}
  [[nodiscard]] unsigned status() const { return status_; }

 private:
  unsigned status_;
};

// Returns the token with which jobs may be registered on a server that asks for one: the value of the environment
// variable FLYBALL_REGISTRATION_TOKEN, else the token in the file that FLYBALL_REGISTRATION_TOKEN_FILE names, else
// nothing. Throws what read_token_file() does.
[[nodiscard]] std::string default_registration_token();

// Every call throws ServerRefusal, SystemError where the server cannot be reached or breaks off, and InputError where
// its answer cannot be understood.
class PlanServer {
 public:
  // `address` is as parse_endpoint takes it. `longest_wait` is the longest that schedule() may be asked to wait.
  // `ca_file` holds the authorities of an https:// server, as HttpClient takes it. `registration_token`, unless it is
  // empty, is sent instead of the job's token when the job is registered. Throws UsageError, InputError and
  // SystemError.
  PlanServer(const std::string& address, std::string token, Seconds longest_wait = Seconds(0),
             const std::string& ca_file = {}, const std::string& registration_token = {});

  // Registers the job, unless it is registered already, and the rank in it.
  RankRegistered join(const JobRequest& job, const RankRequest& rank);
  MeasurementsTaken send(const std::string& job, const MeasurementReport& report);
  // Tells the server that the rank has measured all that it will.
  void finish_profiling(const std::string& job, int rank);
  // Returns the next schedule after `version`; none where none comes within `wait`.
  [[nodiscard]] std::optional<RankSchedule> schedule(const std::string& job, int rank, std::int64_t version,
                                                     Seconds wait);
  StragglerTaken set_straggler(const std::string& job, const StragglerNotice& notice);
  // Reports a step.
  StepTaken send(const std::string& job, const StepReport& report);
  // Reports a step that was run in another order than its schedule's.
  void send(const std::string& job, const OrderReport& report);
  // Reports what the iterations of a schedule take.
  void send(const std::string& job, const PromiseReport& report);
  // Reports that the rank computes slower than it was profiled, or as fast again.
  void send(const std::string& job, const PaceReport& report);
  // Both are for people who watch. The list takes the administrator's token where the server has one.
  [[nodiscard]] JobList jobs();
  [[nodiscard]] WatchedNodes nodes();  // likewise
  [[nodiscard]] JobRanks ranks(const std::string& job);
  [[nodiscard]] JobStatus status(const std::string& job);
  [[nodiscard]] FrontierReport frontier(const std::string& job);
  [[nodiscard]] MeasuredIteration iteration(const std::string& job);
  // Tells that the rank's training has ended.
  void end(const std::string& job, int rank);

  void interrupt();  // soon ends the call that is under way; may be called from any thread

  [[nodiscard]] std::string address() const { return client_.endpoint().text(); }

 private:
  Response ask(std::string_view method, const std::string& target, const std::string& body = {});
  Response ask(HttpClient& client, std::string_view method, const std::string& target, const std::string& body);

  HttpClient client_;
  std::optional<HttpClient> registering_;
};

}  // namespace flyball
