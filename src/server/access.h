// Who may do what: a job's token for all of that job, the administrator's for everything.
#pragma once

#include <optional>
#include <string_view>

#include "net/http.h"
#include "server/job.h"
#include "server/rate_limit.h"
#include "server/token.h"

namespace flyball {

class Access {
 public:
  // Without an administrator's token, jobs can be listed by everybody, and other jobs' tokens open nothing.
  explicit Access(std::optional<TokenHash> administrator) : administrator_(administrator) {}

  // What stands behind "Authorization: Bearer"; empty where there is nothing.
  [[nodiscard]] static std::string_view shown_token(const Request& request);

  // The administrator's token, or a Unix socket and the server's own user or root.
  [[nodiscard]] bool is_administrator(const Request& request) const;

  // These throw HttpError 401 and 403.
  void need_administrator(const Request& request) const;
  void need_job(const Request& request, const Job& job) const;

 private:
  std::optional<TokenHash> administrator_;
};

}  // namespace flyball
