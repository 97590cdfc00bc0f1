// Bearer tokens. Tokens are long and random, so that a plain hash of one can be stored and reveals nothing. All
// functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace flyball {

using TokenHash = std::array<std::uint8_t, 32>;  // SHA-256

// Returns 64 hexadecimal digits from the kernel's random source. Throws SystemError.
[[nodiscard]] std::string random_token();

[[nodiscard]] TokenHash hash_token(std::string_view token);

// Compares two hashes in a time that does not depend on where they differ.
[[nodiscard]] bool same_hash(const TokenHash& a, const TokenHash& b);

}  // namespace flyball
