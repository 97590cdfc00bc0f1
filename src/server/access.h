// Decides who may do what: a job's token allows everything that concerns the job, the administrator's token allows
// everything, and the registration token allows the registering of jobs.
#pragma once

#include <optional>
#include <string>

#include "net/http.h"
#include "server/job.h"
#include "server/token.h"

namespace flyball {

class Access {
 public:
  struct Tokens {
    // Without an administrator's token, everybody can list jobs (except Zeus's).
    std::optional<TokenHash> administrator;
    std::optional<TokenHash> registration;  // allows the registering of jobs only
    bool open_registration = true;          // whether everybody may register jobs
  };
  explicit Access(const Tokens& tokens) : tokens_(tokens) {}

  // Returns the token of "Authorization: Bearer", or the password of "Authorization: Basic", which clients make of
  // http://name:token@host; empty where there is neither.
  [[nodiscard]] static std::string shown_token(const Request& request);

  // Returns whether only an administrator passes need_administrator().
  [[nodiscard]] bool has_administrator() const { return tokens_.administrator.has_value(); }
  // Returns whether the request shows the administrator's token, or comes over a Unix socket from the server's own user
  // or root.
  [[nodiscard]] bool is_administrator(const Request& request) const;
  [[nodiscard]] bool shows_token_of(const Request& request, const Job& job) const;
  // Returns the name of the party to which a request without a job's token counts, where requests and places for jobs
  // are shared out: "administrator"; "registration 192.0.2.7" for a client that shows the registration token, which
  // many may hold; otherwise the client's address, or the Unix socket's user.
  [[nodiscard]] std::string party_of(const Request& request) const;

  // The next four throw HttpError 401 or 403 where the request does not show what is needed.
  void need_administrator(const Request& request) const;
  // For what everybody may read and only an administrator may change: refuses also where there is no such token.
  void need_true_administrator(const Request& request) const;
  void need_job(const Request& request, const Job& job) const;
  void need_registration(const Request& request) const;

 private:
  [[nodiscard]] bool shows_registration_token(const Request& request) const;

  Tokens tokens_;
};

}  // namespace flyball
