// The handlers are installed with SA_RESETHAND, so that a second signal has its usual action. The one that ends the
// process calls only functions that are async-signal-safe.
#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "base/partial_file.h"

namespace flyball {
namespace {

volatile std::sig_atomic_t signal_seen = 0;

void note_signal(int) { signal_seen = 1; }

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// Not 0 while a progress bar may stand on the terminal.
volatile std::sig_atomic_t line_to_clear = 0;

// A signal's handler, which may call only what is async-signal-safe.
void end_process(int) {
  if (const char* partial = partial_file()) ::unlink(partial);
  if (line_to_clear != 0) say("\r\x1b[K");
  say("flyball: error: interrupted\n");
  ::_exit(130);
}

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

InterruptExit::InterruptExit() {
  line_to_clear = ::isatty(STDERR_FILENO);
  install(end_process);
}

InterruptExit::~InterruptExit() { install(SIG_DFL); }

bool InterruptGuard::interrupted() const { return signal_seen != 0; }

void InterruptGuard::throw_if_interrupted() const {
  if (interrupted()) throw Interrupted("interrupted; nothing was written");
}

}  // namespace flyball
