// The interface of Zeus's pipeline frequency server: POST /register_job, POST /register_rank/{job},
// GET /schedule/{job}?rank=R and POST /result/{job}, with the JSON of that server, so that its clients work unchanged.
// Source: zeus 0.16.0, zeus/optimizer/pipeline_frequency/{common,optimizer}.py and server/.
//
// Zeus knows no tokens, and its jobs do not say what an iteration looks like. A job is therefore planned in one of two
// ways.
//  - Where the server was given a plan file of `flyball plan` with as many stages as the job, every rank gets its
//    stage's schedule from that file at once, for as long as the server has the same file.
//  - Otherwise the client has to report its iterations and ask again, and the job's metadata must say so and describe
//    the iteration ("reports=yes microbatches=8 schedule=1f1b"). The server sweeps the clocks from the highest down,
//    one per round of schedule and result, until the energy has risen five times in a row on every rank. Then it
//    plans, and answers with the plan from then on.
// Zeus's own optimizer asks once and never reports a result. Without the plan file it would stay at the highest clock
// for good, so that it is refused when it registers its job, with the reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/event_loop.h"
#include "net/router.h"
#include "server/access.h"
#include "server/given_plan.h"
#include "server/job_book.h"

namespace flyball {

// Makes a request from a job's metadata, as far as that says how to plan the job; other words in it are ignored. Throws
// InputError where a value is no number or out of range.
[[nodiscard]] JobRequest request_from_metadata(const std::string& metadata);

// Answers the requests of Zeus's clients. Loop's thread only.
class ZeusDesk {
 public:
  // `book` and `access` must outlive this object, which becomes the book's listener. Jobs of the book that run another
  // plan file get no schedule; that is noted as a trouble of the book and of the job.
  ZeusDesk(EventLoop& loop, JobBook& book, const Access& access, std::optional<GivenPlan> plan);

  void add_routes(Router& router);

  // Ends every wait with 503.
  void release_waiting();

  [[nodiscard]] std::size_t waiting() const;  // requests that wait for a schedule

 private:
  struct Wait {
    int rank = 0;
    Reply reply;
    std::chrono::steady_clock::time_point deadline;
  };
  struct SweepTail {
    std::int64_t job = 0;  // StoredJob::job
    int stage = 0;
    int clock = 0;
    std::shared_ptr<const std::string> text;
  };

  void register_job(const Request& request, const Reply& reply);
  void register_rank(const Request& request, const Reply& reply);
  void schedule(const Request& request, const Reply& reply);
  void result(const Request& request, const Reply& reply);

  [[nodiscard]] Job& zeus_job(const Request& request) const;
  // Throws HttpError 503 and 409 for a job from a plan file that the server does not have.
  void need_plan_of(const Job& job) const;
  void check_stored_jobs();
  void look_again(const std::string& id, Job* job);
  // Ends the waits that have lasted too long, and forgets those whose clients have gone.
  void end_overdue();
  // Returns the next schedule, as zeus_tail() writes it; null where the rank has to wait.
  [[nodiscard]] std::shared_ptr<const std::string> next_tail(const Job& job, const JobRank& rank);
  // Returns the schedule of a stage at one clock. The newest texts are kept, since a stage's ranks ask for the same
  // one.
  [[nodiscard]] std::shared_ptr<const std::string> sweep_tail(const Job& job, int stage, int clock);

  JobBook& book_;
  const Access& access_;
  std::shared_ptr<const GivenPlan> plan_;  // null: none
  std::map<std::string, std::vector<Wait>> waiting_;
  std::deque<SweepTail> sweep_tails_;  // newest last
  std::size_t sweep_tail_bytes_ = 0;   // of their texts
  EventLoop::Handle sweep_;
};

}  // namespace flyball
