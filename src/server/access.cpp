#include "server/access.h"

#include <fmt/format.h>
#include <unistd.h>

namespace flyball {
namespace {

HttpError unauthorized(const std::string& what) { return {401, what, {}, {{"WWW-Authenticate", "Bearer"}}}; }

}  // namespace

std::string_view Access::shown_token(const Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto header = request.header("Authorization");
  if (!header || !header->starts_with(kScheme)) return {};
  return header->substr(kScheme.size());
}

bool Access::is_administrator(const Request& request) const {
  if (request.peer.local && (request.peer.uid == 0 || request.peer.uid == ::getuid())) return true;
  return administrator_ && same_hash(hash_token(shown_token(request)), *administrator_);
}

void Access::need_administrator(const Request& request) const {
  if (!administrator_ || is_administrator(request)) return;
  if (shown_token(request).empty()) throw unauthorized("this takes the administrator's token (Authorization: Bearer)");
  throw HttpError(403, "this takes the administrator's token; the one shown is another");
}

void Access::need_job(const Request& request, const Job& job) const {
  const std::string_view token = shown_token(request);
  if (!token.empty() && same_hash(hash_token(token), job.stored().token)) return;
  if (is_administrator(request)) return;
  if (token.empty()) throw unauthorized(fmt::format("job {} takes its token (Authorization: Bearer)", job.id()));
  throw HttpError(403, fmt::format("the token shown is not job {}'s", job.id()));
}

}  // namespace flyball
