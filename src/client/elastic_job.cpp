// A thread of its own sends the newest report and waits for the answer, since no time limit holds for all of it (names
// of hosts are looked up); the training's thread leaves its report there, and waits as long as it has patience.
#include "client/elastic_job.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/contain.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/monotonic_time.h"
#include "base/record.h"
#include "net/client.h"
#include "net/json_response.h"
#include "net/query_string.h"
#include "wire/cluster_messages.h"

namespace flyball {
namespace {

constexpr Seconds kAnswerTime{5.0};
constexpr Seconds kClosingTime{0.5};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// 0 where the variable is missing or no number.
int number_in(const char* name) {
  const std::string value = variable(name);
  const long number = std::strtol(value.c_str(), nullptr, 10);
  return number > 0 && number < 1'000'000 ? static_cast<int>(number) : 0;
}

}  // namespace

class ElasticJob::Courier {
 public:
  explicit Courier(const Options& options)
      : options_(options),
        target_(fmt::format("/v1/cluster/jobs/{}/report", percent_encode(options.job))),
        client_(parse_endpoint(options.controller), client_options(options)),
        thread_([this] { contained("an elastic job", [this] { run(); }); }) {}

  ~Courier() {
    {
      std::unique_lock lock(mutex_);
      const bool late = failed_ || late_;
      changed_.wait_for(lock, duration_of(late ? Seconds(0) : kClosingTime), [this] { return idle(); });
      closing_ = true;
    }
    changed_.notify_all();
    client_.interrupt();
    thread_.join();
  }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // What was answered to a report of another number of GPUs is not for the job as it is now.
  ElasticAnswer hand_over(const ElasticReport& report, bool at_once) {
    std::unique_lock lock(mutex_);
    const Nanoseconds now = monotonic_now();
    if (std::exchange(gpus_, report.gpus) != report.gpus) answer_ = {};
    if (!at_once && now < next_) return answer_;
    next_ = now + to_nanoseconds(options_.interval);
    waiting_ = report;
    changed_.notify_all();
    if (failed_ || late_) return {};
    late_ = !changed_.wait_for(lock, duration_of(options_.patience), [this] { return idle() || failed_; });
    if (late_) say("does not answer; the training goes on, and reports when it does");
    return late_ ? ElasticAnswer() : answer_;
  }

  std::vector<std::string> news() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

 private:
  static HttpClient::Options client_options(const Options& options) {
    HttpClient::Options made;
    made.timeout = kAnswerTime;
    // In the clear, whoever takes the controller's port while it is away would collect tokens.
    if (!parse_endpoint(options.controller).tls) return made;
    made.ca_file = options.ca_file;
    made.token = options.token;
    return made;
  }

  [[nodiscard]] bool idle() const { return !waiting_ && !sending_; }

  void say(const std::string& words) {
    news_.push_back(fmt::format("the controller at {} {}", options_.controller, words));
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closing_ || waiting_; });
      if (closing_) return;
      const ElasticReport report = *std::exchange(waiting_, std::nullopt);
      sending_ = true;
      lock.unlock();
      std::optional<ElasticAnswer> answer;
      std::string problem;
      try {
        answer = send(to_json(report).dump());
      } catch (const Error& error) {
        problem = error.what();
      }
      lock.lock();
      sending_ = false;
      if (answer) {
        if (failed_ || late_) say("answers again");
        failed_ = late_ = false;
        if (report.gpus == gpus_) answer_ = std::move(*answer);
      } else {
        if (!failed_ && !late_) say("is away; the training goes on, and reports when it is back: " + problem);
        failed_ = true;
        answer_ = {};
        if (!waiting_) waiting_ = report;
      }
      changed_.notify_all();
      if (failed_) changed_.wait_for(lock, duration_of(options_.retry), [this] { return closing_; });
    }
  }

  ElasticAnswer send(const std::string& report) {
    const Response response = client_.request("POST", target_, report);
    if (response.status < 200 || response.status > 299) {
      throw SystemError(fmt::format("it answered {}: {}", response.status, detail_of_problem(response.body)));
    }
    return read_message<ElasticAnswer>(parse_json("its answer", response.body));
  }

  const Options options_;
  const std::string target_;
  HttpClient client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ElasticReport> waiting_;  // the newest, to be sent
  int gpus_ = 0;                          // of the last report that was handed over
  bool sending_ = false;
  bool failed_ = false;   // the last request
  bool late_ = false;     // the answer to the one under way
  ElasticAnswer answer_;  // the last one
  bool closing_ = false;
  Nanoseconds next_ = 0;  // the earliest time of another report
  std::vector<std::string> news_;
  std::thread thread_;
};

ElasticJob::Options ElasticJob::from_environment(int gpus) {
  Options options;
  options.controller = variable(kClusterVariable);
  options.ca_file = variable(kClusterCaVariable);
  options.token = variable(kJobTokenVariable);
  options.job = variable("SLURM_JOB_ID");
  options.gpus = gpus > 0 ? gpus : number_in("SLURM_JOB_NUM_NODES") * number_in("SLURM_GPUS_ON_NODE");
  return options;
}

ElasticJob::ElasticJob(Options options) : options_(std::move(options)) {
  if (options_.controller.empty() || options_.job.empty()) return;
  try {
    courier_ = std::make_unique<Courier>(options_);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    trouble_ = error.what();
  }
}

ElasticJob::~ElasticJob() = default;

bool ElasticJob::report(std::int64_t iteration, std::int64_t iterations, Seconds step) {
  if (iteration < 0 || iterations < 0 || !(step.value() >= 0) || !std::isfinite(step.value())) {
    throw UsageError(fmt::format("a report of iteration {} of {} in {} s: none of them may be below 0", iteration,
                                 iterations, step.value()));
  }
  iteration_ = iteration;
  iterations_ = iterations;
  return hand_over(step, iteration >= iterations);
}

// The time of an iteration on these GPUs is not known yet.
void ElasticJob::go_on(int gpus) {
  if (gpus < 1) throw UsageError(fmt::format("a job goes on with 1 GPU or more, not with {}", gpus));
  options_.gpus = gpus;
  (void)hand_over(Seconds(0), true);
}

bool ElasticJob::hand_over(Seconds step, bool at_once) {
  ElasticAnswer answer;
  if (courier_) {
    answer = courier_->hand_over(
        {static_cast<double>(iteration_), static_cast<double>(iterations_), step, options_.gpus}, at_once);
  }
  keeps_ = std::move(answer.keeps);
  tell();
  return answer.stop;
}

void ElasticJob::tell() {
  if (!options_.notice) return;
  if (!courier_) {
    if (std::exchange(told_, true)) return;
    options_.notice(!trouble_.empty()      ? "nothing is reported to the controller: " + trouble_
                    : options_.job.empty() ? "this is no job of Slurm (SLURM_JOB_ID is not set): nothing is reported"
                                           : "FLYBALL_CLUSTER is not set: this job reports to no controller");
    return;
  }
  for (const std::string& words : courier_->news()) options_.notice(words);
}

}  // namespace flyball
