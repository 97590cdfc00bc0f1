// Random bytes come from getrandom(2), hashes from OpenSSL's SHA-256.
#include "server/token.h"

#include <openssl/sha.h>

#include "base/random_digits.h"

namespace flyball {

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
