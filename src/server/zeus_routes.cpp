// A rank's round is the number of results that it has reported; its clock in the sweep follows from the round. A
// request for a schedule waits in a list until all ranks have reported the round before, or the job has been planned;
// the book's listener looks through the list after every change.
#include "server/zeus_routes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/random_digits.h"
#include "base/record.h"
#include "base/rise_count.h"
#include "base/text.h"
#include "base/utf8.h"
#include "net/json_response.h"
#include "server/schedule_text.h"

namespace flyball {
namespace {

constexpr const char* kRequest = "the request";
constexpr const char* kFromPlanFile = "runs the server's plan file";
constexpr std::size_t kLongestMetadata = 1024;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kMostSweepTails = 64;
constexpr std::size_t kMostSweepTailBytes = 32u << 20u;
constexpr Seconds kWaitSweep{0.1};
constexpr std::chrono::hours kLongestWait{1};  // a round of the sweep lasts as long as its slowest rank

// Errors in the form of Zeus's web framework: {"detail": "..."}, with 422 for what does not validate.
Response zeus_error(const std::exception& error) {
  unsigned status = status_of(error);
  if (dynamic_cast<const InputError*>(&error) != nullptr || dynamic_cast<const UsageError*>(&error) != nullptr) {
    status = 422;
  }
  return json_response(status, {{"detail", error.what()}});
}

// Answers null, as a FastAPI function without a result does.
template <class Result>
Answer<Result> answer_with_null(const Reply& reply) {
  return {reply, [](const Result&) { return json_response(200, nullptr); }};
}

// The clocks through which a stage's sweep goes, from the highest down.
std::vector<int> sweep_clocks(const JobRank& rank) {
  std::vector<int> clocks = rank.request.clocks_mhz;
  std::sort(clocks.begin(), clocks.end(), std::greater<>());
  clocks.erase(std::unique(clocks.begin(), clocks.end()), clocks.end());
  return clocks;
}

// Round r runs at the r-th clock; a rank's rounds are counted by its results.
std::size_t round_of(const JobRank& rank) { return static_cast<std::size_t>(rank.last_sequence + 1); }

bool has_swept(const JobRank& rank) {
  if (round_of(rank) >= std::max<std::size_t>(sweep_clocks(rank).size(), 1)) return true;
  std::string_view last;
  bool any = false;
  for (const MeasurementSum& sum : rank.collected) {
    if (sum.instruction == last) continue;
    last = sum.instruction;
    any = true;
    RiseCount count;
    for (const Joules energy : energies_by_clock(rank.collected, last)) count.add(energy);
    if (count.rises() < kRisesToStop) return false;
  }
  return any;
}

bool all_swept(const Job& job) {
  return std::all_of(job.ranks().begin(), job.ranks().end(), [](const auto& entry) { return has_swept(entry.second); });
}

// Whether all ranks have reported what came before this rank's round.
bool round_is_open(const Job& job, const JobRank& rank) {
  return job.all_registered() && std::all_of(job.ranks().begin(), job.ranks().end(), [&](const auto& entry) {
           return entry.second.last_sequence >= rank.last_sequence;
         });
}

bool is_from_plan_file(const Job& job) { return job.request().name == kFromPlanFile; }

// Means over all runs of an instruction in a result's iterations, [[s, s, ...], ...].
struct Total {
  double sum = 0.0;
  std::int64_t count = 0;
};

Total total_of(const nlohmann::json& iterations, const std::string& place) {
  Total total;
  const auto refuse = [&](const std::string& what) {
    throw InputError({kRequest}, place + ": " + what, "give a list of numbers per iteration");
  };
  if (!iterations.is_array()) refuse("is no list");
  for (const nlohmann::json& iteration : iterations) {
    if (!iteration.is_array()) refuse("holds something else than lists");
    for (const nlohmann::json& value : iteration) {
      if (!value.is_number() || !(value.get<double>() > 0.0)) refuse("holds something that is no number above zero");
      total.sum += value.get<double>();
      ++total.count;
    }
  }
  if (total.count == 0) refuse("is empty");
  return total;
}

std::vector<InstructionMeasurement> measurements_of(const nlohmann::json& json, int clock) {
  JsonObject result(json, kRequest);
  (void)result.object("time_breakdown");
  (void)result.object("energy_breakdown");
  const nlohmann::json& times = json.at("time_breakdown");
  const nlohmann::json& energies = json.at("energy_breakdown");
  std::vector<InstructionMeasurement> all;
  for (const auto& [instruction, iterations] : times.items()) {
    const auto energy = energies.find(instruction);
    if (energy == energies.end()) {
      throw InputError({kRequest}, fmt::format("energy_breakdown has no '{}'", instruction),
                       "give times and energies of the same instructions");
    }
    const Total time = total_of(iterations, "time_breakdown." + instruction);
    const Total joules = total_of(*energy, "energy_breakdown." + instruction);
    all.push_back({instruction, Megahertz(clock), Seconds(time.sum / static_cast<double>(time.count)),
                   Joules(joules.sum / static_cast<double>(joules.count)), time.count});
  }
  if (all.empty()) {
    throw InputError({kRequest}, "time_breakdown is empty", "report the time and energy of every instruction");
  }
  return all;
}

// Applies the bounds that hold for reports to the server's own interface.
MeasurementReport checked(const MeasurementReport& report) {
  return read_message<MeasurementReport>(nlohmann::json(to_json(report)));
}

}  // namespace

JobRequest request_from_metadata(const std::string& metadata) {
  nlohmann::json fields = {{"stages", 1}, {"microbatches", 1}};
  std::string word;
  const auto take = [&] {
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    word.clear();
    if (name == "schedule" || name == "planner" || name == "order") fields[name] = value;
    for (const char* known : {"microbatches", "chunks"}) {
      if (name != known) continue;
      const auto number = parse_integer(value);
      fields[name] = number ? nlohmann::json(*number) : nlohmann::json(value);
    }
    for (const char* known : {"blocking_power_w", "unit_time_s", "noise", "target_time_s", "patience_s"}) {
      if (name != known) continue;
      const auto number = parse_number(value);
      fields[name] = number ? nlohmann::json(*number) : nlohmann::json(value);
    }
  };
  for (const char c : metadata + " ") {
    if (c == ' ' || c == ',' || c == ';' || c == '+') {
      take();
    } else {
      word += c;
    }
  }
  return read_message<JobRequest>(fields);
}

ZeusDesk::ZeusDesk(EventLoop& loop, JobBook& book, const Access& access, std::optional<GivenPlan> plan)
    : book_(book),
      access_(access),
      plan_(plan ? std::make_shared<const GivenPlan>(*std::move(plan)) : nullptr),
      sweep_(loop.every(kWaitSweep, [this] { end_overdue(); })) {
  check_stored_jobs();
  book_.on_change([this](const std::string& id, Job* job) { look_again(id, job); });
}

void ZeusDesk::need_plan_of(const Job& job) const {
  if (!plan_) throw HttpError(503, "the server was started without the plan file that this job runs");
  const std::size_t stages = plan_->tails.size();
  if (stages == static_cast<std::size_t>(job.request().stages) && plan_->identity == job.stored().given_plan) return;
  throw HttpError(
      409, fmt::format("job {} was given a plan file of {} stages, and the server now has another, of {}; start the "
                       "server with the plan that the job was given (--zeus-plan), or register a new job",
                       job.id(), job.request().stages, stages));
}

void ZeusDesk::check_stored_jobs() {
  for (const Job* stored : book_.jobs()) {
    if (stored->stored().kind != JobKind::kZeus || !is_from_plan_file(*stored)) continue;
    Job& job = book_.job(stored->id());
    // Databases of older versions do not say which plan file a job runs; it is then the first one that fits.
    const bool fits = plan_ && plan_->tails.size() == static_cast<std::size_t>(job.request().stages);
    if (fits && job.stored().given_plan == 0) book_.set_given_plan(job.id(), plan_->identity);
    try {
      need_plan_of(job);
    } catch (const HttpError& error) {
      job.set_failure(error.what());
      book_.add_trouble(fmt::format("ranks of job {} get no schedule: {}", job.id(), error.what()));
    }
  }
}

void ZeusDesk::add_routes(Router& router) {
  const auto add = [&](const char* method, const char* pattern,
                       void (ZeusDesk::*handler)(const Request&, const Reply&)) {
    router.add({method, pattern, AsyncHandler([this, handler](const Request& request, const Reply& reply) {
                  (this->*handler)(request, reply);
                }),
                Runs::kInLoop, zeus_error});
  };
  add("POST", "/register_job", &ZeusDesk::register_job);
  add("POST", "/register_rank/{job}", &ZeusDesk::register_rank);
  add("GET", "/schedule/{job}", &ZeusDesk::schedule);
  add("POST", "/result/{job}", &ZeusDesk::result);
}

Job& ZeusDesk::zeus_job(const Request& request) const {
  Job& job = book_.job(request.parameters.at("job"));
  // Other jobs have tokens, which this interface cannot ask for.
  if (job.stored().kind != JobKind::kZeus) throw HttpError(404, fmt::format("there is no job {}", job.id()));
  return job;
}

void ZeusDesk::register_job(const Request& request, const Reply& reply) {
  access_.need_registration(request);
  const nlohmann::json json = parse_json(kRequest, request.body);
  JsonObject info(json, kRequest);
  if (!info.find_text("job_id").value_or("").empty()) info.refuse("job_id", "is not empty", "leave it to the server");
  const auto stages = static_cast<int>(info.integer("pp_degree", 1, kMostStages));
  const auto pipelines = static_cast<int>(info.integer("dp_degree", 1, kMostRanks));
  const auto tensors = static_cast<int>(info.integer("tp_degree", 1, kMostRanks));
  const std::int64_t ranks = info.integer("world_size", 1, kMostRanks);
  if (ranks != std::int64_t{stages} * pipelines * tensors) {
    info.refuse("world_size", "is not pp_degree * dp_degree * tp_degree", "correct one of them");
  }
  const std::string metadata = info.find_text("job_metadata").value_or("");
  if (metadata.size() > kLongestMetadata) info.refuse("job_metadata", "is longer than 1024 bytes", "shorten it");
  JobRequest job;
  std::uint64_t given = 0;
  if (plan_ && plan_->tails.size() == static_cast<std::size_t>(stages)) {
    given = plan_->identity;
    job.microbatches = 1;
    job.name = kFromPlanFile;
    job.planner = "max";
  } else {
    if (metadata.find("reports=yes") == std::string::npos) {
      const std::string had = plan_ ? fmt::format("one of {}", plan_->tails.size()) : "none";
      info.refuse(
          "job_metadata",
          fmt::format("does not say that this client reports its iterations, and the server has no plan of {} "
                      "stages to give at once ({})",
                      stages, had),
          "start the server with such a plan (flyball serve --zeus-plan), which Zeus's own client needs: it asks "
          "for one schedule and reports nothing, so that nobody could plan for it. For a client that sends "
          "results and asks again, write reports=yes microbatches=N, and schedule=NAME unless it is 1f1b");
    }
    if (metadata.find("microbatches=") == std::string::npos) {
      info.refuse("job_metadata", "does not say what an iteration is",
                  "write microbatches=N, and schedule=NAME unless it is 1f1b");
    }
    job = request_from_metadata(metadata);
    job.name = cut_between_characters(metadata, kLongestName);
  }
  job.stages = stages;
  job.data_parallel = pipelines;
  job.tensor_parallel = tensors;
  const auto now = std::time(nullptr);
  job.id = fmt::format("{:%Y-%m-%d-%H-%M-%S}+dp{}+pp{}+tp{}+flyball+{}", fmt::localtime(now), pipelines, stages,
                       tensors, random_digits(8));
  book_.create_job({std::move(job), JobKind::kZeus, given, false, {}, access_.party_of(request)},
                   {reply, [](const JobRegistered& registered) { return json_response(200, registered.job); }});
}

void ZeusDesk::register_rank(const Request& request, const Reply& reply) {
  const Job& job = zeus_job(request);
  if (is_from_plan_file(job)) need_plan_of(job);
  const nlohmann::json json = parse_json(kRequest, request.body);
  JsonObject info(json, kRequest);
  nlohmann::json rank;
  for (const char* name : {"rank", "dp_rank", "pp_rank", "tp_rank"}) rank[name] = info.integer(name, 0, kMostRanks - 1);
  rank["clocks_mhz"] = info.integers("available_frequencies", 1, 1'000'000);
  book_.register_rank(job.id(), read_message<RankRequest>(rank), answer_with_null<RankRegistered>(reply));
}

std::shared_ptr<const std::string> ZeusDesk::next_tail(const Job& job, const JobRank& rank) {
  const auto stage = static_cast<std::size_t>(rank.request.pp_rank);
  if (is_from_plan_file(job)) {
    need_plan_of(job);
    if (!job.all_registered()) return nullptr;
    return {plan_, &plan_->tails.at(stage)};
  }
  if (job.current()) return job.zeus_tail_for(RankPlace(rank.request));
  if (job.state() == JobState::kFailed) throw HttpError(500, job.status(0.0).trouble);
  const std::vector<int> clocks = sweep_clocks(rank);
  if (!round_is_open(job, rank) || all_swept(job) || clocks.empty()) return nullptr;
  const int clock = clocks[std::min(round_of(rank), clocks.size() - 1)];
  return sweep_tail(job, rank.request.pp_rank, clock);
}

std::shared_ptr<const std::string> ZeusDesk::sweep_tail(const Job& job, int stage, int clock) {
  const std::int64_t number = job.stored().job;
  const auto known = std::find_if(sweep_tails_.begin(), sweep_tails_.end(), [&](const SweepTail& tail) {
    return tail.job == number && tail.stage == stage && tail.clock == clock;
  });
  if (known != sweep_tails_.end()) return known->text;
  const PipelineSpec spec = pipeline_of(job.request());
  const auto streams = make_schedule(spec.schedule, spec.stages, spec.microbatches, spec.chunks);
  auto text = std::make_shared<const std::string>(zeus_tail(streams[static_cast<std::size_t>(stage)], clock));
  sweep_tails_.push_back({number, stage, clock, text});
  sweep_tail_bytes_ += text->size();
  while (sweep_tails_.size() > kMostSweepTails ||
         (sweep_tail_bytes_ > kMostSweepTailBytes && sweep_tails_.size() > 1)) {
    sweep_tail_bytes_ -= sweep_tails_.front().text->size();
    sweep_tails_.pop_front();
  }
  return text;
}

void ZeusDesk::schedule(const Request& request, const Reply& reply) {
  Job& job = zeus_job(request);
  if (is_from_plan_file(job)) need_plan_of(job);
  const auto text = request.query.find("rank");
  const auto number = text ? parse_integer(*text) : std::nullopt;
  if (!number || *number < 0 || *number >= job.request().ranks()) {
    throw HttpError(422, "the query's rank is missing, or no rank of this job");
  }
  const auto rank = static_cast<int>(*number);
  if (job.find_rank(rank) == nullptr) throw HttpError(400, fmt::format("rank {} has not registered", rank));
  book_.hear(job.id());
  std::vector<Wait>& waits = waiting_[job.id()];
  const auto of_rank = [rank](const Wait& wait) { return wait.rank == rank; };
  if (static_cast<std::size_t>(std::count_if(waits.begin(), waits.end(), of_rank)) >= book_.limits().polls) {
    const auto oldest = std::find_if(waits.begin(), waits.end(), of_rank);
    oldest->reply.fail(HttpError(503, "newer requests of this rank wait in its place"));
    waits.erase(oldest);
  }
  waits.push_back({rank, reply, std::chrono::steady_clock::now() + kLongestWait});
  look_again(job.id(), &job);
}

void ZeusDesk::result(const Request& request, const Reply& reply) {
  Job& job = zeus_job(request);
  const nlohmann::json json = parse_json(kRequest, request.body);
  const auto number = static_cast<int>(JsonObject(json, kRequest).integer("rank", 0, kMostRanks - 1));
  const JobRank* rank = job.find_rank(number);
  if (rank == nullptr) throw HttpError(400, fmt::format("rank {} has not registered", number));
  book_.hear(job.id());
  // Later results show how the plan performs, which the server does not use.
  if (is_from_plan_file(job) || job.current() || rank->profiled) return reply.send(json_response(200, nullptr));
  if (!round_is_open(job, *rank) || rank->enqueued_sequence > rank->last_sequence) {
    throw HttpError(409, fmt::format("rank {} has reported this round already", number));
  }
  const std::vector<int> clocks = sweep_clocks(*rank);
  const int clock = clocks.empty() ? 0 : clocks[std::min(round_of(*rank), clocks.size() - 1)];
  MeasurementReport report{number, rank->last_sequence + 1, measurements_of(json, clock)};
  book_.take_report(job.id(), checked(report), answer_with_null<MeasurementsTaken>(reply));
}

void ZeusDesk::look_again(const std::string& id, Job* job) {
  if (job != nullptr && job->stored().kind != JobKind::kZeus) return;
  if (job != nullptr && !is_from_plan_file(*job) && !job->plan() && job->state() == JobState::kProfiling &&
      !job->any_profiled() && all_swept(*job)) {
    std::vector<int> ranks;
    for (const auto& [number, rank] : job->ranks()) ranks.push_back(number);
    // Nobody waits for this write; if it fails, the next request tries again.
    const Reply unheard([](const Response&) {}, zeus_error);
    book_.mark_profiled(id, ranks, answer_with_null<std::string>(unheard));
  }
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  std::vector<Wait> still;
  for (Wait& wait : std::exchange(found->second, {})) {
    try {
      if (job == nullptr) throw HttpError(404, fmt::format("job {} has been deleted, or has expired", id));
      const JobRank* rank = job->find_rank(wait.rank);
      auto tail = rank == nullptr ? nullptr : next_tail(*job, *rank);
      if (!tail) {
        still.push_back(wait);
        continue;
      }
      Response response;
      response.body = fmt::format(R"({{"rank":{},)", wait.rank);
      response.tail = std::move(tail);
      wait.reply.send(std::move(response));
    } catch (const std::exception& error) {  // the others continue to wait
      wait.reply.fail(error);
    }
  }
  if (still.empty()) {
    waiting_.erase(found);
  } else {
    found->second = std::move(still);
  }
}

void ZeusDesk::end_overdue() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [id, waits] : waiting_) {
    std::erase_if(waits, [now](const Wait& wait) {
      if (wait.deadline > now) return wait.reply.abandoned();
      wait.reply.fail(HttpError(503, "there is no schedule yet; ask again"));
      return true;
    });
    // A waiting rank counts as heard, however long it waits. The job may nevertheless be about to go.
    if (!waits.empty() && book_.find_job(id) != nullptr) book_.hear(id);
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
}

std::size_t ZeusDesk::waiting() const {
  std::size_t count = 0;
  for (const auto& [id, waits] : waiting_) count += waits.size();
  return count;
}

void ZeusDesk::release_waiting() {
  for (const auto& [id, waits] : waiting_) {
    for (const Wait& wait : waits) wait.reply.fail(HttpError(503, "the server is stopping; ask again in a moment"));
  }
  waiting_.clear();
}

}  // namespace flyball
