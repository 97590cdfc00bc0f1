// Ctrl-C: the computation under way is told to stop, or the process ends; either way no file is left half-written.
#pragma once

#include "base/error.h"

namespace flyball {

// The user stopped the program. Exit status 130, as a shell reports it.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// While a guard lives, the first SIGINT or SIGTERM is only noted; a second one ends the process at once. There may be
// one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool interrupted() const;
  void throw_if_interrupted() const;
};

// While an object of this class lives, SIGINT or SIGTERM ends the process at once with status 130, whatever it is
// doing: the file that is being written is removed, and every other one is whole or was not begun. For commands that
// compute long in many places and hold nothing that must be given back. There may be one of these or one InterruptGuard
// at a time, not both.
class InterruptExit {
 public:
  InterruptExit();
  ~InterruptExit();
  InterruptExit(const InterruptExit&) = delete;
  InterruptExit& operator=(const InterruptExit&) = delete;
};

}  // namespace flyball
