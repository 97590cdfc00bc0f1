// Asks the controller of a cluster (`flyball cluster run`), again and again, what its jobs have and what it has
// decided.
//
// It has a thread with a time limit for every question, so that a controller that hangs holds up nobody.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "net/http.h"

namespace flyball {

struct ControllerWatchOptions {
  std::string address;      // empty: there is no controller to ask
  std::string ca_file;      // of the authorities that issued its certificate; empty: the system's
  Seconds call_limit{2.0};  // for one question
  Seconds period{1.0};      // between two
  Seconds silent_after{5.0};
};

// Thread-safe.
class ControllerWatch {
 public:
  // Begins to ask. Throws UsageError for an address that is none, and InputError where the CA file cannot be used.
  explicit ControllerWatch(const ControllerWatchOptions& options);
  // Breaks off a question under way.
  ~ControllerWatch();
  ControllerWatch(const ControllerWatch&) = delete;
  ControllerWatch& operator=(const ControllerWatch&) = delete;

  // Returns the answer to GET /v1/cluster (a WatchedController): what it told last. Waits for nothing. Costs little:
  // what it told was written when it came, and all answers share that text.
  [[nodiscard]] Response response() const;

  // Returns for which of the cluster's jobs each GPU is, in words ("job 7, resnet"), by node and the node's number of
  // the GPU; nothing while the controller is silent, or where the cluster engine does not tell. Never null.
  using Holders = std::map<std::pair<std::string, std::size_t>, std::string>;
  [[nodiscard]] std::shared_ptr<const Holders> holders() const;

  // Returns the power budget of all GPUs of the cluster, by what the controller told last; none while it is silent.
  [[nodiscard]] std::optional<Watts> budget() const;

 private:
  class Asking;
  std::unique_ptr<Asking> asking_;  // null where there is no controller
};

}  // namespace flyball
