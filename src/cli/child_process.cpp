// The signals of SignalQueue are blocked and taken with sigtimedwait, so that the wait for the child is a loop on one
// thread: look whether it has ended, take a signal, pass it on, tick. The child is spawned with the signal mask that
// our caller gave us.
#include "cli/child_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "cli/console.h"
#include "cli/exit_status.h"

namespace flyball {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// A closed pipe or a file at its size limit must not end this program and leave the child alone. The write that fails
// tells of it.
constexpr int kErrorsToUs[] = {SIGPIPE, SIGXFSZ};

bool ends_programs(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

// Starts the child with the signal mask from before this program changed it, and with the usual actions.
pid_t start(const std::vector<std::string>& command, const SignalQueue& signals) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &signals.mask_before());
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : kErrorsToUs) sigaddset(&usual, signal);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  pid_t child = -1;
  const int code = ::posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), ::environ);
  posix_spawnattr_destroy(&attributes);
  if (code == 0) return child;
  print_error(fmt::format("cannot run '{}': {}", command.front(), std::strerror(code)));
  throw ExitStatus{code == ENOENT ? 127 : 126};
}

}  // namespace

SignalQueue::SignalQueue() {
  sigemptyset(&caught_);
  sigaddset(&caught_, SIGCHLD);
  for (const int signal : kPassedOn) sigaddset(&caught_, signal);
  sigprocmask(SIG_BLOCK, &caught_, &before_);
  // If our caller ignored SIGCHLD, so would we, and nobody would hear of the child's end.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int signal : kErrorsToUs) sigaction(signal, &action, nullptr);
}

SignalQueue::~SignalQueue() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int SignalQueue::take(Seconds longest, siginfo_t* info) {
  const double whole = std::floor(std::max(longest.value(), 0.0));
  const timespec time{static_cast<time_t>(whole), static_cast<long>((longest.value() - whole) * 1e9)};
  const int signal = ::sigtimedwait(&caught_, info, &time);
  return std::max(signal, 0);
}

ChildEnd run_child(const std::vector<std::string>& command, SignalQueue& signals, Seconds period,
                   const std::function<void()>& tick) {
  const pid_t child = start(command, signals);
  ChildEnd end;
  while (true) {
    int state = 0;
    const pid_t ended = ::waitpid(child, &state, WNOHANG);
    if (ended == child) {
      end.status = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
      return end;
    }
    if (ended < 0 && errno != EINTR)
      throw SystemError(fmt::format("lost sight of the child: {}", std::strerror(errno)));
    siginfo_t info{};
    const int signal = signals.take(period, &info);
    if (signal != 0 && signal != SIGCHLD) {
      end.interrupted = end.interrupted || ends_programs(signal);
      const bool from_terminal = info.si_code > 0;
      if (!from_terminal) ::kill(child, signal);
    }
    if (tick) tick();
  }
}

}  // namespace flyball
