// Ctrl-C while an engine runs: the engine is told to stop, and nothing is written.
#pragma once

#include "base/error.h"

namespace flyball {

// The user stopped the program. Exit status 130, as a shell reports it.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// While one lives, the first SIGINT or SIGTERM is only noted; a second ends the process at once. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool interrupted() const;
  void throw_if_interrupted() const;
};

}  // namespace flyball
