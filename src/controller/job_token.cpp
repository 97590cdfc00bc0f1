// What is hashed is a text with both numbers in decimal, so that no two pairs of them make the same one.
#include "controller/job_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace flyball {

std::string job_token(std::string_view secret, std::int64_t job, std::int64_t user) {
  const std::string about = "flyball job " + std::to_string(job) + " of user " + std::to_string(user);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(about.data()), about.size(), code.data(), &size) == nullptr) {
    return {};
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string token = std::to_string(user) + '.';
  for (unsigned i = 0; i < size; ++i) {
    token += kDigits[code[i] >> 4u];
    token += kDigits[code[i] & 15u];
  }
  return token;
}

}  // namespace flyball
