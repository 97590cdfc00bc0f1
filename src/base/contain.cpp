// An atomic count, and one teller behind a mutex that speaks at most once a second: one cause can throw thousands of
// times. Nothing here throws; what cannot be told has been counted.
#include "base/contain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "base/printable.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenWords{1};

std::atomic<std::uint64_t> exceptions_noted{0};

struct Teller {
  std::mutex mutex;
  std::function<void(std::string_view, std::string_view)> tell;
  Clock::time_point last = Clock::time_point::min();
};

// Never destroyed: threads may outlive main().
Teller& teller() {
  static Teller& one = *new Teller;  // NOLINT(cppcoreguidelines-owning-memory)
  return one;
}

std::string words_of(const std::exception_ptr& error) {
  if (!error) return "no exception";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

}  // namespace

void note_contained(std::string_view where, const std::exception_ptr& error) noexcept {
  ++exceptions_noted;
  try {
    const std::string what = words_of(error);
    Teller& to = teller();
    const std::lock_guard lock(to.mutex);
    // Whoever can cause one exception can cause thousands, so that most are only counted.
    const auto now = Clock::now();
    if (to.last != Clock::time_point::min() && now - to.last < kBetweenWords) return;
    to.last = now;
    if (to.tell) return to.tell(where, what);
    const std::string line = printable(fmt::format("flyball: {}: {}", where, what)) + "\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    // There may be no memory for the words, or nobody to write them to; the exception has been counted all the same.
  }
}

std::uint64_t contained_exceptions() { return exceptions_noted; }

void tell_contained(std::function<void(std::string_view, std::string_view)> tell) {
  const std::lock_guard lock(teller().mutex);
  teller().tell = std::move(tell);
  teller().last = Clock::time_point::min();
}

}  // namespace flyball
