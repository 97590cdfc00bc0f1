#include "cli/interrupt.h"

#include <csignal>

namespace flyball {
namespace {

volatile std::sig_atomic_t signal_seen = 0;

void note_signal(int) { signal_seen = 1; }

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signal_seen = 0;
  install(note_signal);
}

InterruptGuard::~InterruptGuard() { install(SIG_DFL); }

bool InterruptGuard::interrupted() const { return signal_seen != 0; }

void InterruptGuard::throw_if_interrupted() const {
  if (interrupted()) throw Interrupted("interrupted; nothing was written");
}

}  // namespace flyball
