// A word that threads wait on until it moves, or until a time: Linux's futex. std::atomic's own wait has no deadline,
// and glibc has a semaphore with one by the monotonic clock only since 2.30.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/monotonic_time.h"

namespace flyball {

// Whose threads wait on a word: those of one process, or of all that have mapped the memory that it lies in.
enum class FutexScope : int { kProcess = FUTEX_PRIVATE_FLAG, kMachine = 0 };

// Waits while `word` is `seen`. False once `until` (of the monotonic clock) has passed; true when the word has moved,
// or for no reason at all: the caller looks again. Costs one system call.
inline bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanoseconds until,
                       FutexScope scope = FutexScope::kProcess) noexcept {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  const timespec time = to_timespec(until);
  return ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | static_cast<int>(scope), seen, &time, nullptr,
                   FUTEX_BITSET_MATCH_ANY) == 0 ||
         errno == EAGAIN || errno == EINTR;
}

// Wakes at most `most` of those that wait. Call it after the word was moved. Costs one system call.
inline void futex_wake(std::atomic<std::uint32_t>& word, int most, FutexScope scope = FutexScope::kProcess) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE | static_cast<int>(scope), most, nullptr, nullptr, 0);
}

}  // namespace flyball
