// Finds the handler that answers a request. A handler is a plain function from a request to a response; one that has to
// wait gets a Reply instead, and one whose answer has no end gets a stream of server-sent events.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/http.h"

namespace flyball {

// The answer still owed to one request. Copies share it; the first answer counts and later ones are ignored. Where the
// last copy goes without an answer, the client gets 500. Thread-safe.
class Reply {
 public:
  using Sink = std::function<void(Response)>;
  using ErrorResponse = std::function<Response(const std::exception&)>;

  // `gone` tells whether nobody waits for the answer any more, and may be called from any thread. Empty: somebody does.
  Reply(Sink sink, ErrorResponse errors, std::function<bool()> gone = {});

  void send(Response response) const;
  void fail(const std::exception& error) const;
  void fail(const std::exception_ptr& error) const;

  // Whether the client has closed its connection, so that nothing need be kept for it.
  [[nodiscard]] bool abandoned() const;

 private:
  struct Owed;
  std::shared_ptr<Owed> owed_;
};

// A response without an end: text/event-stream. Thread-safe.
class EventStream {
 public:
  virtual ~EventStream() = default;
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Queues one event (`name` may be empty; `data` must hold no line end). False once the stream is closed. A reader
  // that lets more than the server's limit pile up is dropped.
  virtual bool send(std::string_view name, std::string_view data) = 0;
  virtual void close() = 0;
  // `action` is called once, in the server's thread; soon, where the stream is closed already.
  virtual void on_close(std::function<void()> action) = 0;

 protected:
  EventStream() = default;
};

// Returns the route's answer to an error. An error that is not of the family flyball::Error, and so thrown by no
// design, is noted (base/contain.h) under `path`.
[[nodiscard]] Response error_response(const Reply::ErrorResponse& errors, const std::string& path,
                                      const std::exception& error);

// Called in the server's thread, or in a worker's (Runs::kInPool). What a handler throws is caught there by the
// connection (net/connection.cpp) and becomes the route's error response.
using Handler = std::function<Response(const Request&)>;
using AsyncHandler = std::function<void(const Request&, Reply)>;
// Checks the request (and may throw), then returns what is to be done with the stream.
using StreamHandler = std::function<std::function<void(std::shared_ptr<EventStream>)>(const Request&)>;

enum class Runs {
  kInLoop,  // in the server's thread; must not block
  kInPool,  // in one of its worker threads, where it may block; for Handler only
};

struct Route {
  std::string method;   // "GET" also answers HEAD
  std::string pattern;  // "/v1/leases/{lease}"; a parameter is one whole segment, never empty
  std::variant<Handler, AsyncHandler, StreamHandler> handler;
  Runs runs = Runs::kInLoop;
  Reply::ErrorResponse errors = [](const std::exception& error) { return problem_response(error); };
};

class Router {
 public:
  // The first route that fits answers, in the order of adding.
  void add(Route route);
  // Called before every handler; refuses by throwing.
  void set_guard(std::function<void(const Request&, const Route&)> guard) { guard_ = std::move(guard); }

  struct Match {
    const Route* route = nullptr;  // null: `refusal` says why (404 or 405)
    Response refusal;
  };
  // Finds the route, and fills request.parameters.
  [[nodiscard]] Match match(Request& request) const;
  void check(const Request& request, const Route& route) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> segments;
  };
  std::vector<Entry> entries_;
  std::function<void(const Request&, const Route&)> guard_;
};

}  // namespace flyball
