// Each route checks its token, reads its request and calls the book, which answers through the reply.
#include "server/job_routes.h"

#include <fmt/format.h>

#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/record.h"
#include "base/text.h"
#include "base/wall_clock.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr double kLongestAskedWait = 3600.0;
// No job needs a longer description. A client that shows no right to register may be repeating a registration with the
// token in the body, which has to be parsed to find out.
constexpr std::size_t kLongestJob = 64u << 10u;
constexpr std::size_t kLongestLimits = 64u << 10u;  // some 100 bytes for each of kMostBudgetPeriods

std::string job_of(const Request& request) { return request.parameters.at("job"); }

int rank_of(const Request& request) {
  const std::string& text = request.parameters.at("rank");
  const auto rank = parse_integer(text);
  if (!rank || *rank < 0 || *rank >= kMostRanks) {
    throw HttpError(404, fmt::format("'{}' is no rank; ranks count from 0", text));
  }
  return static_cast<int>(*rank);
}

std::int64_t query_version(const Request& request) {
  const auto text = request.query.find("after_version");
  if (!text) return 0;
  const auto version = parse_integer(*text);
  if (!version || *version < 0) {
    throw HttpError(400, fmt::format("after_version is '{}', it must be a whole number from 0", *text));
  }
  return *version;
}

Seconds query_wait(const Request& request) {
  const auto text = request.query.find("wait_s");
  if (!text) return Seconds(0);
  const auto wait = parse_number(*text);
  if (!wait || *wait < 0.0 || *wait > kLongestAskedWait) {
    throw HttpError(400, fmt::format("wait_s is '{}', it must be a number from 0 to {}", *text, kLongestAskedWait));
  }
  return Seconds(*wait);
}

// Answers with the result as JSON.
template <class Result>
Answer<Result> answer_with_json(const Reply& reply) {
  return {reply, [](const Result& result) { return json_response(200, to_json(result)); }};
}

Answer<std::string> answer_with_nothing(const Reply& reply) {
  return {reply, [](const std::string&) { return empty_response(); }};
}

Response frontier_response(const Job& job) {
  if (!job.current()) {
    throw HttpError(409, fmt::format("job {} has no frontier yet", job.id()),
                    {{"state", fmt::format("\"{}\"", name_of(job.state()))}});
  }
  FrontierReport report = job.current()->plan->report();
  report.job = job.id();
  report.version = job.current()->frontier_version;
  return json_response(200, to_json(report));
}

// The names of Zeus's jobs are all that Zeus's interface asks for, so that only the administrator may see them.
Response job_list(const JobBook& book, bool for_administrator) {
  JobList list;
  for (const Job* job : book.jobs()) {
    if (!for_administrator && job->stored().kind == JobKind::kZeus) continue;
    list.jobs.push_back(listing_of(*job, for_administrator));
  }
  return json_response(200, to_json(list));
}

}  // namespace

void add_job_routes(Router& router, JobBook& book, const Access& access) {
  // The job of a request whose token has been checked.
  const auto allowed = [&book, &access](const Request& request) -> Job& {
    Job& job = book.job(job_of(request));
    access.need_job(request, job);
    return job;
  };

  router.add({"POST", "/v1/jobs", AsyncHandler([&book, &access](const Request& request, const Reply& reply) {
                if (request.body.size() > kLongestJob) access.need_registration(request);
                JobRequest job = read_message<JobRequest>(json_body(request));
                // For a job that exists already, its own token is needed.
                if (book.find_job(job.id) == nullptr) access.need_registration(request);
                book.create_job({std::move(job), JobKind::kOwn, 0, access.is_administrator(request),
                                 Access::shown_token(request), access.party_of(request)},
                                {reply, [](const JobRegistered& registered) {
                                   return json_response(registered.created ? 201 : 200, to_json(registered));
                                 }});
              })});
  router.add({"GET", "/v1/jobs", Handler([&book, &access](const Request& request) {
                access.need_administrator(request);
                return job_list(book, access.is_administrator(request));
              })});
  router.add({"GET", "/v1/jobs/{job}", Handler([allowed](const Request& request) {
                return json_response(200, to_json(allowed(request).status(now_seconds())));
              })});
  router.add({"DELETE", "/v1/jobs/{job}", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
                book.delete_job(allowed(request).id(), answer_with_nothing(reply));
              })});
  router.add(
      {"POST", "/v1/jobs/{job}/ranks", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.register_rank(job.id(), read_message<RankRequest>(json_body(request)),
                            {reply, [](const RankRegistered& registered) {
                               return json_response(registered.created ? 201 : 200, to_json(registered));
                             }});
       })});
  router.add({"POST", "/v1/jobs/{job}/measurements",
              AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
                const Job& job = allowed(request);
                book.take_report(job.id(), read_message<MeasurementReport>(json_body(request)),
                                 answer_with_json<MeasurementsTaken>(reply));
              })});
  router.add({"POST", "/v1/jobs/{job}/ranks/{rank}/profiled",
              AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
                const Job& job = allowed(request);
                book.mark_profiled(job.id(), {rank_of(request)}, answer_with_nothing(reply));
              })});
  router.add({"GET", "/v1/jobs/{job}/frontier",
              Handler([allowed](const Request& request) { return frontier_response(allowed(request)); })});
  router.add({"GET", "/v1/jobs/{job}/iteration", Handler([&book, allowed](const Request& request) {
                Response response;
                response.tail = book.last_iteration(allowed(request).id());
                return response;
              })});
  router.add({"GET", "/v1/jobs/{job}/ranks/{rank}/schedule",
              AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
                const Job& job = allowed(request);
                book.wait_for_schedule(job.id(), rank_of(request), query_version(request), query_wait(request), reply);
              })});
  router.add(
      {"POST", "/v1/jobs/{job}/stragglers", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.set_straggler(job.id(), read_message<StragglerNotice>(json_body(request)),
                            answer_with_json<StragglerTaken>(reply));
       })});
  router.add(
      {"PUT", "/v1/jobs/{job}/clocks", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.set_clocks_order(job.id(), read_message<ClocksOrder>(json_body(request)),
                               answer_with_json<ClocksOrder>(reply));
       })});
  router.add({"GET", "/v1/jobs/{job}/limits", Handler([allowed](const Request& request) {
                return json_response(200, to_json(allowed(request).limits()));
              })});
  router.add(
      {"PUT", "/v1/jobs/{job}/limits", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         if (request.body.size() > kLongestLimits) {
           throw HttpError(413, fmt::format("limits have at most {} bytes, and a budget {} periods", kLongestLimits,
                                            kMostBudgetPeriods));
         }
         book.set_limits(job.id(), read_message<JobLimits>(json_body(request)), answer_with_json<JobLimits>(reply));
       })});
  router.add(
      {"POST", "/v1/jobs/{job}/steps", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         const auto report = read_message<StepReport>(json_body(request));
         const StepTaken taken = book.take_step(job.id(), report);
         if (report.version == 0) return answer_with_json<StepTaken>(reply).send(taken);
         answer_with_nothing(reply).send({});
       })});
  router.add(
      {"POST", "/v1/jobs/{job}/orders", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.take_order(job.id(), read_message<OrderReport>(json_body(request)));
         answer_with_nothing(reply).send({});
       })});
  router.add(
      {"POST", "/v1/jobs/{job}/promises", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.take_promise(job.id(), read_message<PromiseReport>(json_body(request)));
         answer_with_nothing(reply).send({});
       })});
  router.add(
      {"POST", "/v1/jobs/{job}/paces", AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
         const Job& job = allowed(request);
         book.take_pace(job.id(), read_message<PaceReport>(json_body(request)));
         answer_with_nothing(reply).send({});
       })});
  router.add({"POST", "/v1/jobs/{job}/ranks/{rank}/ended",
              AsyncHandler([&book, allowed](const Request& request, const Reply& reply) {
                const Job& job = allowed(request);
                book.end_rank(job.id(), rank_of(request));
                answer_with_nothing(reply).send({});
              })});
  router.add({"GET", "/v1/jobs/{job}/events", StreamHandler([&book, allowed](const Request& request) {
                const std::string id = allowed(request).id();
                book.check_subscribe(id);
                return [&book, id](std::shared_ptr<EventStream> stream) { book.subscribe(id, std::move(stream)); };
              })});
}

}  // namespace flyball
