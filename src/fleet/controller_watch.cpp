// Asks for GET /v1/cluster/status, over a connection that stays. What cannot be understood counts as no answer.
#include "fleet/controller_watch.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "base/record.h"
#include "net/client.h"

namespace flyball {
namespace {

HttpClient::Options client_options(const ControllerWatchOptions& options) {
  HttpClient::Options made;
  made.timeout = options.call_limit;
  made.ca_file = options.ca_file;
  return made;
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

  [[nodiscard]] WatchedController told() const {
    const std::lock_guard lock(mutex_);
    WatchedController told = told_;
    if (told.status) told.age = to_seconds(monotonic_now() - answered_);
    told.silent = !told.age || *told.age > options_.silent_after;
    return told;
  }

 private:
  void ask() {
    std::string trouble;
    std::optional<ClusterRunStatus> status;
    try {
      const Response response = client_.request("GET", "/v1/cluster/status");
      if (response.status == 200) {
        status = read_message<ClusterRunStatus>(parse_json("the controller's answer", response.body));
      } else {
        trouble = fmt::format("it answers with status {}", response.status);
      }
    } catch (const Error& error) {
      trouble = error.what();
    }
    const std::lock_guard lock(mutex_);
    told_.trouble = std::move(trouble);
    if (!status) return;
    told_.status = std::move(status);
    answered_ = monotonic_now();
  }

  const ControllerWatchOptions options_;
  HttpClient client_;  // in the thread alone

  mutable std::mutex mutex_;  // guards the next two
  WatchedController told_;
  Nanoseconds answered_ = 0;

  std::optional<PeriodicThread> thread_;
};

ControllerWatch::ControllerWatch(const ControllerWatchOptions& options) {
  if (!options.address.empty()) asking_ = std::make_unique<Asking>(options);
}

ControllerWatch::~ControllerWatch() = default;

WatchedController ControllerWatch::told() const { return asking_ ? asking_->told() : WatchedController(); }

}  // namespace flyball
