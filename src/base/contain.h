// Where exceptions of long-lived threads end. A failure of one request, job or device must not end the process that
// serves all others; therefore the body of a thread, and each piece of its work, runs in contained().
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string_view>
#include <utility>

namespace flyball {

// Counts the exception and reports it, on standard error unless tell_contained() says otherwise, at most once a second.
// For code that itself catches what should not have been thrown. Thread-safe.
void note_contained(std::string_view where, const std::exception_ptr& error) noexcept;

// Runs `body`. Returns false where an exception left it, which has then been noted. `where` names the work, for the
// log.
template <class Body>
bool contained(std::string_view where, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return true;
  } catch (...) {
    note_contained(where, std::current_exception());
    return false;
  }
}

// Returns how many exceptions have been noted in this process.
[[nodiscard]] std::uint64_t contained_exceptions();

// Sets the function that is called from now on with each exception to be reported, in the thread that threw it; empty:
// standard error again.
void tell_contained(std::function<void(std::string_view where, std::string_view what)> tell);

}  // namespace flyball
