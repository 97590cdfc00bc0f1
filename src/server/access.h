// Decides who may do what: a job's token is good for all of that job, the administrator's for everything, and the
// registration token for registering jobs.
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
    // Without an administrator's token, everybody can list jobs (except Zeus's), and a job's token is good for that job
    // only.
    std::optional<TokenHash> administrator;
    std::optional<TokenHash> registration;  // allows the registering of jobs only
    bool open_registration = true;          // everybody may register jobs
  };
  explicit Access(const Tokens& tokens) : tokens_(tokens) {}

  // Returns the token of "Authorization: Bearer", or the password of "Authorization: Basic", which clients make of
  // http://name:token@host; empty where there is neither.
  [[nodiscard]] static std::string shown_token(const Request& request);

  // Whether the request shows the administrator's token, or comes over a Unix socket from the server's own user or
  // root.
  [[nodiscard]] bool is_administrator(const Request& request) const;
  [[nodiscard]] bool shows_token_of(const Request& request, const Job& job) const;
  // Returns whose share a request without a job's token takes, of the requests and of the places for jobs:
  // "administrator"; of those who show the registration token, which many may hold, "registration 192.0.2.7"; else the
  // address, or the Unix socket's user.
  [[nodiscard]] std::string party_of(const Request& request) const;

  // These throw HttpError 401 and 403.
  void need_administrator(const Request& request) const;
  void need_job(const Request& request, const Job& job) const;
  void need_registration(const Request& request) const;

 private:
  [[nodiscard]] bool shows_registration_token(const Request& request) const;

  Tokens tokens_;
};

}  // namespace flyball
