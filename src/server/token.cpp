// Random bytes come from getrandom(2), hashes from OpenSSL's SHA-256.
#include "server/token.h"

#include <openssl/sha.h>
#include <sys/random.h>

#include <vector>

#include "base/error.h"

namespace flyball {

std::string random_digits(std::size_t digits) {
  std::vector<std::uint8_t> bytes((digits + 1) / 2);
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw SystemError("the system gives no random numbers (getrandom)");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4u];
    text += kDigits[byte & 15u];
  }
  text.resize(digits);
  return text;
}

std::string random_token() { return random_digits(64); }

TokenHash hash_token(std::string_view token) {
  TokenHash hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

bool same_hash(const TokenHash& a, const TokenHash& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace flyball
