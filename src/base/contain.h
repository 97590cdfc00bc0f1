// Where exceptions of long-lived threads end. What one request, job or device makes go wrong must not end the process
// of all others: the body of a thread, and of each piece of its work, runs in contained().
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string_view>
#include <utility>

namespace flyball {

// Counts the exception and tells of it, on standard error unless tell_contained() says otherwise, at most once a
// second. For whoever catches by itself what should not have been thrown. Any thread.
void note_contained(std::string_view where, const std::exception_ptr& error) noexcept;

// Runs `body`; false where an exception left it, which has then been noted. `where`: whose work it is, for the log.
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

// How many have been noted in this process.
[[nodiscard]] std::uint64_t contained_exceptions();

// Who is told from now on, of all threads' exceptions, in the thread that threw; empty: standard error again.
void tell_contained(std::function<void(std::string_view where, std::string_view what)> tell);

}  // namespace flyball
