// HTTP messages as values, and the errors that become responses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "net/query_string.h"

namespace flyball {

// Who is at the other end of a connection.
struct Peer {
  std::uint64_t connection = 0;  // counts from 1; never used twice by one server
  bool local = false;            // a Unix socket: the kernel vouches for uid and pid
  uid_t uid = static_cast<uid_t>(-1);
  pid_t pid = 0;        // 0 where the process lies outside our process namespace
  std::string address;  // "unix" or "127.0.0.1:51312", for logs
  // The party that limits are counted for: "uid 1000", "192.0.2.7", "2001:db8:0:1::/64" (whoever has one IPv6 address
  // usually has all of its /64).
  std::string party;
};

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;
  std::string path;   // decoded
  QueryString query;  // decoded
  std::vector<Header> headers;
  std::string body;
  Peer peer;
  std::map<std::string, std::string, std::less<>> parameters;  // what the route's {name} segments stand for

  // Returns the first header of this name, whatever its case.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";  // ignored where there is no body
  std::string body;
  std::shared_ptr<const std::string> tail;  // follows `body`; many responses may share it. Null: nothing
  std::vector<Header> headers;

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
};

// An error that has an HTTP status. `extra` holds further members of the problem object, each as JSON text.
class HttpError : public Error {
 public:
  HttpError(unsigned status, const std::string& detail, std::vector<std::pair<std::string, std::string>> extra = {},
            std::vector<Header> headers = {})
      : Error(detail), status_(status), extra_(std::move(extra)), headers_(std::move(headers)) {}

  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& extra() const { return extra_; }
  [[nodiscard]] const std::vector<Header>& headers() const { return headers_; }

 private:
  unsigned status_;
  std::vector<std::pair<std::string, std::string>> extra_;
  std::vector<Header> headers_;
};

// Returns the words for a status: "Not Found" for 404.
[[nodiscard]] std::string_view reason_phrase(unsigned status);

// Returns the status that an exception is answered with: HttpError's own, 400 for InputError and UsageError, else 500.
[[nodiscard]] unsigned status_of(const std::exception& error);

[[nodiscard]] Response empty_response();  // 204, "no content"
[[nodiscard]] Response text_response(std::string content_type, std::string body);

// Both functions make a problem object of RFC 9457: {"type": "about:blank", "title", "status", "detail", ...}.
[[nodiscard]] Response problem_response(const std::exception& error);
[[nodiscard]] Response problem_response(unsigned status, std::string_view detail);

// Compares two texts in a time that does not depend on where they differ.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace flyball
