// A thread for each node asks its agent for GET /v1/devices, over a connection that stays.
#include "fleet/node_watch.h"

#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "client/agent_client.h"

namespace flyball {

class NodeWatch::Node {
 public:
  Node(const std::string& name, const std::string& address, const NodeWatchOptions& options)
      : options_(options),
        client_(parse_endpoint(address),
                {.timeout = options.call_limit, .token = options.token, .ca_file = options.ca_file}) {
    told_.node = name;
    told_.address = address;
    thread_.emplace("the thread that asks an agent", options.period, [this] { return turn(); });
  }

  void stop() { thread_->stop(); }

  [[nodiscard]] WatchedNode told() const {
    const std::lock_guard lock(mutex_);
    WatchedNode told = told_;
    if (answered_ != 0) told.age = to_seconds(monotonic_now() - answered_);
    told.silent = !told.age || *told.age > options_.silent_after;
    return told;
  }

 private:
  // Returns how long to pause.
  Seconds turn() {
    std::string trouble;
    std::optional<NodeStatus> status;
    try {
      status = client_.devices();
    } catch (const Error& error) {
      trouble = error.what();
    }
    const std::lock_guard lock(mutex_);
    told_.trouble = std::move(trouble);
    if (!status) return options_.period;
    answered_ = monotonic_now();
    told_.version = status->version;
    told_.gpus.clear();
    for (const GpuStatus& gpu : status->gpus) told_.gpus.push_back(watched(gpu));
    return options_.period;
  }

  const NodeWatchOptions& options_;
  AgentClient client_;  // in the thread alone

  mutable std::mutex mutex_;  // guards what follows
  WatchedNode told_;
  Nanoseconds answered_ = 0;

  std::optional<PeriodicThread> thread_;
};

NodeWatch::NodeWatch(NodeWatchOptions options) : options_(std::move(options)) {
  for (const auto& [name, address] : options_.addresses) {
    nodes_[name] = std::make_unique<Node>(name, address, options_);
  }
}

// All are told before the first is waited for.
NodeWatch::~NodeWatch() {
  for (const auto& [name, node] : nodes_) node->stop();
}

WatchedNodes NodeWatch::nodes() const {
  WatchedNodes all;
  for (const auto& [name, node] : nodes_) all.nodes.push_back(node->told());
  return all;
}

}  // namespace flyball
