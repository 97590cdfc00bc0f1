// The planning server as a rank sees it. Calls wait for their answer; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/client.h"
#include "wire/job_messages.h"

namespace flyball {

// The server refused the request, rather than failing to answer. Trying the same again is of no use soon.
class ServerRefusal : public SystemError {
 public:
  ServerRefusal(unsigned status, const std::string& message) : SystemError(message), status_(status) {}
  [[nodiscard]] unsigned status() const { return status_; }

 private:
  unsigned status_;
};

// What lets register jobs on a server that asks for it: what the environment variable FLYBALL_REGISTRATION_TOKEN holds,
// else the file that FLYBALL_REGISTRATION_TOKEN_FILE names, else nothing. Throws SystemError where the file cannot be
// read.
[[nodiscard]] std::string default_registration_token();

// Every call throws ServerRefusal, SystemError where the server cannot be reached or breaks off, and InputError where
// its answer cannot be understood.
class PlanServer {
 public:
  // `address` as parse_endpoint takes it. `longest_wait` is what schedule() may be asked to wait. `ca_file` has the
  // authorities of an https:// server, as HttpClient takes it. `registration_token` is shown in place of the job's
  // where the job is registered, unless it is empty. Throws UsageError, InputError and SystemError.
  PlanServer(const std::string& address, std::string token, Seconds longest_wait = Seconds(0),
             const std::string& ca_file = {}, const std::string& registration_token = {});

  // Makes the job unless it is there, and the rank in it.
  RankRegistered join(const JobRequest& job, const RankRequest& rank);
  MeasurementsTaken send(const std::string& job, const MeasurementReport& report);
  // The rank has measured all that it will.
  void finish_profiling(const std::string& job, int rank);
  // The next schedule after `version`; nothing where none comes within `wait`.
  [[nodiscard]] std::optional<RankSchedule> schedule(const std::string& job, int rank, std::int64_t version,
                                                     Seconds wait);
  StragglerTaken set_straggler(const std::string& job, const StragglerNotice& notice);
  // A step that was run by a schedule with report_steps.
  void send(const std::string& job, const StepReport& report);

  // What the plan promises.
  [[nodiscard]] FrontierReport frontier(const std::string& job);

  void interrupt();  // any thread: ends the call that is under way soon

  [[nodiscard]] std::string address() const { return client_.endpoint().text(); }

 private:
  Response ask(std::string_view method, const std::string& target, const std::string& body = {});
  Response ask(HttpClient& client, std::string_view method, const std::string& target, const std::string& body);

  HttpClient client_;
  std::optional<HttpClient> registering_;
};

}  // namespace flyball
