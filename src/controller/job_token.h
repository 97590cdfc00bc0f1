// The token by which a job of a cluster shows over TCP which job it is, and whose: "1000.9f86d081...", the user's
// number and, as 64 hexadecimal digits, the HMAC-SHA-256 of job and user under a secret that the controller and root on
// the nodes have. Slurm's plugin gives it to the job; nobody who lacks the secret can tell that of another job. It is
// the same after each restart of the job. Where a number is given to another user's job one day, that has another one.
//
// Also compiled into the plugin, which has nothing else of Flyball: the standard library and OpenSSL's libcrypto only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball {

inline constexpr std::size_t kShortestJobSecret = 32;  // characters

// Returns nothing where OpenSSL refuses, for want of memory. Thread-safe; costs some microseconds.
[[nodiscard]] std::string job_token(std::string_view secret, std::int64_t job, std::int64_t user);

}  // namespace flyball
