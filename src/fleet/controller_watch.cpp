// Asks for GET /v1/cluster/status, over a connection that stays. What cannot be understood counts as no answer, as does
// what is too large.
#include "fleet/controller_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "base/record.h"
#include "net/client.h"
#include "wire/fleet_messages.h"

namespace flyball {
namespace {

constexpr std::size_t kMostAnswered = 2u << 20u;  // bytes

HttpClient::Options client_options(const ControllerWatchOptions& options) {
  HttpClient::Options made;
  made.timeout = options.call_limit;
  made.ca_file = options.ca_file;
  made.body_bytes = kMostAnswered;
  return made;
}

// `told` has no status; `status` is that as JSON, if there is one.
Response response_of(const WatchedController& told, std::shared_ptr<const std::string> status) {
  nlohmann::ordered_json json = to_json(told);
  Response response;
  if (!status) {
    response.body = dump_json(json);
    return response;
  }
  json.erase("status");
  response.body = dump_json(json);
  response.body.back() = ',';
  response.tail = std::move(status);
  return response;
}

ControllerWatch::Holders holders_of(const ClusterRunStatus& status) {
  constexpr std::size_t kLongestKind = 60;
  ControllerWatch::Holders holders;
  for (const ClusterJobStatus& job : status.jobs) {
    std::string words = fmt::format("job {}", job.job);
    if (!job.kind.empty() && job.kind.size() <= kLongestKind) words += ", " + job.kind;
    for (const ClusterJobPlace& place : job.places) {
      for (const std::size_t gpu : place.gpus) holders[{place.node, gpu}] = words;
    }
  }
  return holders;
}

// What ends the object that response_of() begins.
std::shared_ptr<const std::string> text_of(ClusterRunStatus status) {
  status.last_decisions.resize(std::min(status.last_decisions.size(), ClusterRunStatus::kMostDecisions));
  return std::make_shared<const std::string>("\"status\":" + dump_json(to_json(status)) + "}");
}

}  // namespace

class ControllerWatch::Asking {
 public:
  explicit Asking(const ControllerWatchOptions& options)
      : options_(options), client_(parse_endpoint(options.address), client_options(options)) {
    told_.address = options.address;
    thread_.emplace("the thread that asks the controller", options_.period, [this] {
      ask();
      return options_.period;
    });
  }

  ~Asking() {
    thread_->stop();
    client_.interrupt();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  [[nodiscard]] Response response() const {
    std::shared_ptr<const std::string> status;
    WatchedController told;
    {
      const std::lock_guard lock(mutex_);
      told = told_;
      status = status_;
      if (status) told.age = to_seconds(monotonic_now() - answered_);
    }
    told.silent = is_silent(told.age);
    return response_of(told, std::move(status));
  }

  [[nodiscard]] std::shared_ptr<const Holders> holders() const {
    const std::lock_guard lock(mutex_);
    return is_heard() ? holders_ : std::make_shared<const Holders>();
  }

  [[nodiscard]] std::optional<Watts> budget() const {
    const std::lock_guard lock(mutex_);
    return is_heard() && budget_ > Watts() ? std::optional(budget_) : std::nullopt;
  }

 private:
  void ask() {
    std::string trouble;
    std::shared_ptr<const std::string> status;
    std::shared_ptr<const Holders> holders;
    Watts budget;
    try {
      const Response response = client_.request("GET", "/v1/cluster/status");
      if (response.status == 200) {
        auto told = read_message<ClusterRunStatus>(parse_json("the controller's answer", response.body));
        holders = std::make_shared<const Holders>(holders_of(told));
        budget = told.budget;
        status = text_of(std::move(told));
      } else {
        trouble = fmt::format("it answers with status {}", response.status);
      }
    } catch (const Error& error) {
      trouble = error.what();
    }
    const std::lock_guard lock(mutex_);
    told_.trouble = std::move(trouble);
    if (!status) return;
    status_ = std::move(status);
    holders_ = std::move(holders);
    budget_ = budget;
    answered_ = monotonic_now();
  }

  // With the mutex held.
  [[nodiscard]] bool is_heard() const { return holders_ && !is_silent(to_seconds(monotonic_now() - answered_)); }

  [[nodiscard]] bool is_silent(const std::optional<Seconds>& age) const { return !age || *age > options_.silent_after; }

  const ControllerWatchOptions options_;
  HttpClient client_;  // in the thread alone, but for interrupt()

  mutable std::mutex mutex_;                   // guards the next five
  WatchedController told_;                     // without its status
  std::shared_ptr<const std::string> status_;  // null: nothing was told yet, as is the next
  std::shared_ptr<const Holders> holders_;
  Watts budget_;
  Nanoseconds answered_ = 0;

  std::optional<PeriodicThread> thread_;
};

ControllerWatch::ControllerWatch(const ControllerWatchOptions& options) {
  if (!options.address.empty()) asking_ = std::make_unique<Asking>(options);
}

ControllerWatch::~ControllerWatch() = default;

Response ControllerWatch::response() const { return asking_ ? asking_->response() : response_of({}, nullptr); }

std::shared_ptr<const ControllerWatch::Holders> ControllerWatch::holders() const {
  return asking_ ? asking_->holders() : std::make_shared<const Holders>();
}

std::optional<Watts> ControllerWatch::budget() const { return asking_ ? asking_->budget() : std::nullopt; }

}  // namespace flyball
