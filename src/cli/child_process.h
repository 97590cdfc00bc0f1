// A program that runs under ours: it has our terminal, input and output, and we end with its exit status.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

// While an object of this class lives, the signals that end or steer a program (SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1, SIGUSR2) and SIGCHLD wait to be taken instead of acting. There may be one at a time; it is made on the main
// thread, before other threads start.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  // Waits for the next signal and returns it, or 0 when `longest` has passed without one.
  int take(Seconds longest, siginfo_t* info = nullptr);

  [[nodiscard]] const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t caught_;
  sigset_t before_;
};

struct ChildEnd {
  int status = 0;            // exit status; 128 + signal when killed by one, as shells say it
  bool interrupted = false;  // SIGINT, SIGTERM, SIGHUP or SIGQUIT came meanwhile
};

// Starts `command` (found by PATH) and waits for its end, calling `tick` at least every `period`. Signals sent to us
// are passed on; those from the terminal reach the child by themselves. Throws ExitStatus 127 where there is no such
// program and 126 where it cannot be run, after saying so on standard error.
ChildEnd run_child(const std::vector<std::string>& command, SignalQueue& signals, Seconds period,
                   const std::function<void()>& tick);

}  // namespace flyball
