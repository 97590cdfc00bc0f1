// Threads for questions are started with all signals blocked, which a thread inherits, and are detached once nobody
// waits for them any more.
#include "driver/patience.h"

#include <fmt/format.h>
#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "base/error.h"
#include "base/text.h"

namespace flyball {

Seconds opening_patience() {
  const char* text = std::getenv("FLYBALL_DRIVER_TIMEOUT");
  if (text == nullptr || *text == '\0') return Seconds(30.0);
  const auto value = parse_duration_seconds(text);
  if (!value || !(*value > 0.0 && *value <= 3600.0)) {
    throw UsageError(fmt::format("FLYBALL_DRIVER_TIMEOUT takes a time up to 3600s such as 30s, not '{}'", text));
  }
  return Seconds(*value);
}

DeviceError no_answer(const std::string& device, Seconds patience) {
  std::string mend = "see dmesg for what the driver says; reset the device or restart the machine";
  if (patience == opening_patience()) mend += "; a driver that is only slow needs FLYBALL_DRIVER_TIMEOUT=60s";
  return {DeviceFault::kTimeout, device, fmt::format("the driver has not answered in {:g} s", patience.value()), mend};
}

void call_aside(std::function<void()> call) {
  // Called by destructors: neither a driver that hangs nor a machine without room for a thread may end the program.
  try {
    answer_within(kAnswerPatience, "closing", std::move(call));
  } catch (const std::exception&) {
    return;
  }
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::thread start_aside(std::packaged_task<void()> work) {
  const SignalsBlocked blocked;
  return std::thread(std::move(work));
}

}  // namespace flyball
