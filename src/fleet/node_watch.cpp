// A thread for each node asks its agent for GET /v1/devices, over a connection that stays, and passes on orders.
#include "fleet/node_watch.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "client/agent_client.h"

namespace flyball {

namespace {

constexpr std::size_t kMostOrders = 64;  // of a node, at a time

}  // namespace

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

  void end_lease(std::string lease, Done done) {
    {
      const std::lock_guard lock(mutex_);
      if (orders_.size() < kMostOrders) {
        orders_.push_back({std::move(lease), std::move(done), {}});
        return thread_->wake();
      }
    }
    done({429, fmt::format("{} orders for {} are waiting, the most there may be", kMostOrders, told_.node)});
  }

  [[nodiscard]] WatchedNode told() const {
    const std::lock_guard lock(mutex_);
    WatchedNode told = told_;
    if (answered_ != 0) told.age = to_seconds(monotonic_now() - answered_);
    told.silent = !told.age || *told.age > options_.silent_after;
    return told;
  }

 private:
  struct Order {
    std::string lease;
    Done done;
    Outcome outcome;
  };

  // Returns how long to pause.
  Seconds turn() {
    std::vector<Order> orders;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    bool answers = true;
    for (Order& order : orders) {
      if (!answers) {
        order.outcome = {502, fmt::format("the agent of {} does not answer", told_.node)};
        continue;
      }
      try {
        client_.end_lease(order.lease);
      } catch (const AgentRefusal& refusal) {
        // A token that the agent does not take is this program's trouble, not that of who asked.
        const unsigned status = refusal.status() == 401 ? 502 : refusal.status();
        order.outcome = {status, fmt::format("the agent of {} says: {}", told_.node, refusal.what())};
      } catch (const Error& error) {
        answers = false;
        order.outcome = {502, fmt::format("the agent of {} does not answer: {}", told_.node, error.what())};
      }
    }
    ask();
    for (const Order& order : orders) order.done(order.outcome);
    return options_.period;
  }

  void ask() {
    std::string trouble;
    std::optional<NodeStatus> status;
    try {
      status = client_.devices();
    } catch (const Error& error) {
      trouble = error.what();
    }
    const std::lock_guard lock(mutex_);
    told_.trouble = std::move(trouble);
    if (!status) return;
    answered_ = monotonic_now();
    told_.version = status->version;
    told_.gpus.clear();
    for (const GpuStatus& gpu : status->gpus) told_.gpus.push_back(watched(gpu));
  }

  const NodeWatchOptions& options_;
  AgentClient client_;  // in the thread alone

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Order> orders_;
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

void NodeWatch::end_lease(const std::string& node, std::string lease, Done done) {
  nodes_.at(node)->end_lease(std::move(lease), std::move(done));
}

WatchedNodes NodeWatch::nodes() const {
  WatchedNodes all;
  for (const auto& [name, node] : nodes_) all.nodes.push_back(node->told());
  return all;
}

}  // namespace flyball
