// Tokens are compared by their hashes, in constant time. A token comes as a bearer's, or as the password of basic
// authentication.
#include "server/access.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <string_view>

namespace flyball {
namespace {

constexpr std::size_t kLongestCredentials = 4096;

HttpError unauthorized(const std::string& what) { return {401, what, {}, {{"WWW-Authenticate", "Bearer"}}}; }

// Returns the password of base64("name:password"); empty if the text is anything else.
std::string password_of(std::string_view credentials) {
  if (credentials.size() > kLongestCredentials) return {};
  std::string decoded(credentials.size(), '\0');
  const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                     reinterpret_cast<const unsigned char*>(credentials.data()),
                                     static_cast<int>(credentials.size()));
  if (size < 0) return {};
  decoded.resize(static_cast<std::size_t>(size));
  // Padding decodes to zeros, which no token holds.
  while (!decoded.empty() && decoded.back() == '\0') decoded.pop_back();
  const std::size_t colon = decoded.find(':');
  return colon == std::string::npos ? std::string() : decoded.substr(colon + 1);
}

}  // namespace

std::string Access::shown_token(const Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  constexpr std::string_view kBasic = "Basic ";
  const auto header = request.header("Authorization");
  if (!header) return {};
  if (header->starts_with(kBearer)) return std::string(header->substr(kBearer.size()));
  return header->starts_with(kBasic) ? password_of(header->substr(kBasic.size())) : std::string();
}

bool Access::is_administrator(const Request& request) const {
  if (request.peer.local && (request.peer.uid == 0 || request.peer.uid == ::getuid())) return true;
  return tokens_.administrator && same_hash(hash_token(shown_token(request)), *tokens_.administrator);
}

bool Access::shows_token_of(const Request& request, const Job& job) const {
  const std::string token = shown_token(request);
  return !token.empty() && same_hash(hash_token(token), job.stored().token);
}

std::string Access::party_of(const Request& request) const {
  if (is_administrator(request)) return "administrator";
  return (shows_registration_token(request) ? "registration " : "") + request.peer.party;
}

bool Access::shows_registration_token(const Request& request) const {
  return tokens_.registration && same_hash(hash_token(shown_token(request)), *tokens_.registration);
}

void Access::need_administrator(const Request& request) const {
  if (!tokens_.administrator || is_administrator(request)) return;
  if (shown_token(request).empty()) throw unauthorized("this takes the administrator's token (Authorization: Bearer)");
  throw HttpError(403, "this request takes the administrator's token; the token shown is another one");
}

void Access::need_true_administrator(const Request& request) const {
  if (is_administrator(request)) return;
  need_administrator(request);
  throw HttpError(
      403,
      "this takes an administrator's token, and the server has none: start it with --admin-token-file, or ask "
      "over its Unix socket as its own user");
}

void Access::need_job(const Request& request, const Job& job) const {
  if (shows_token_of(request, job) || is_administrator(request)) return;
  if (shown_token(request).empty()) {
    throw unauthorized(fmt::format("job {} takes its token (Authorization: Bearer)", job.id()));
  }
  throw HttpError(403, fmt::format("the token shown is not job {}'s", job.id()));
}

void Access::need_registration(const Request& request) const {
  if (tokens_.open_registration || is_administrator(request) || shows_registration_token(request)) return;
  const char* whose =
      tokens_.registration ? "the registration token or the administrator's" : "the administrator's token";
  const bool none = shown_token(request).empty();
  const std::string what = fmt::format(
      "registering a job takes {} (Authorization: Bearer){}; sessions send what FLYBALL_REGISTRATION_TOKEN "
      "holds",
      whose, none ? "" : ", and the one shown is another");
  if (none) throw unauthorized(what);
  throw HttpError(403, what);
}

}  // namespace flyball
