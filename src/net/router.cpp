// Routes are tried in the order of adding, segment by segment; the agent and the server have a few dozen. What a
// Reply's copies share answers 500 from its destructor where no copy has answered.
#include "net/router.h"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "base/contain.h"
#include "base/error.h"

namespace flyball {
namespace {

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = path.find('/');
    segments.emplace_back(path.substr(0, end));
    path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  }
  return segments;
}

bool is_parameter(std::string_view segment) { return segment.starts_with('{') && segment.ends_with('}'); }

bool fits(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_parameter(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
  }
  return true;
}

}  // namespace

struct Reply::Owed {
  Owed(Sink to, ErrorResponse error_response, std::function<bool()> is_gone)
      : sink(std::move(to)), errors(std::move(error_response)), gone(std::move(is_gone)) {}
  ~Owed() {
    if (!answered.exchange(true)) sink(problem_response(500, "the request was dropped without an answer"));
  }
  Owed(const Owed&) = delete;
  Owed& operator=(const Owed&) = delete;

  Sink sink;
  ErrorResponse errors;
  std::function<bool()> gone;
  std::atomic<bool> answered{false};
};

Reply::Reply(Sink sink, ErrorResponse errors, std::function<bool()> gone)
    : owed_(std::make_shared<Owed>(std::move(sink), std::move(errors), std::move(gone))) {}

bool Reply::abandoned() const { return owed_->gone && owed_->gone(); }

void Reply::send(Response response) const {
  if (!owed_->answered.exchange(true)) owed_->sink(std::move(response));
}

void Reply::fail(const std::exception& error) const { send(owed_->errors(error)); }

void Reply::fail(const std::exception_ptr& error) const {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    fail(caught);
  } catch (...) {
    fail(std::runtime_error("an exception of an unknown kind"));
  }
}

Response error_response(const Reply::ErrorResponse& errors, const std::string& path, const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) == nullptr) {
    note_contained(path, std::make_exception_ptr(std::runtime_error(error.what())));
  }
  return errors(error);
}

void Router::add(Route route) {
  std::vector<std::string> segments = segments_of(route.pattern);
  entries_.push_back({std::move(route), std::move(segments)});
}

Router::Match Router::match(Request& request) const {
  const std::vector<std::string> path = segments_of(request.path);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Entry& entry : entries_) {
    if (!fits(entry.segments, path)) continue;
    if (entry.route.method != method) {
      allowed += (allowed.empty() ? "" : ", ") + entry.route.method;
      continue;
    }
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::string& segment = entry.segments[i];
      if (is_parameter(segment)) request.parameters[segment.substr(1, segment.size() - 2)] = path[i];
    }
    return {&entry.route, {}};
  }
  if (allowed.empty()) return {nullptr, problem_response(404, "there is no resource " + request.path)};
  Response refusal = problem_response(405, request.path + " takes no " + request.method + "; it takes " + allowed);
  refusal.headers.push_back({"Allow", allowed});
  return {nullptr, std::move(refusal)};
}

void Router::check(const Request& request, const Route& route) const {
  if (guard_) guard_(request, route);
}

}  // namespace flyball
