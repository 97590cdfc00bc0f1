#include "net/connection.h"

#include <sys/socket.h>

#include <chrono>
#include <utility>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

namespace flyball {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kFirstRead = 512;  // what an idle connection keeps ready
constexpr std::size_t kMostDrained = 4u << 20u;

std::chrono::nanoseconds duration_of(Seconds time) { return std::chrono::nanoseconds(to_nanoseconds(time)); }

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";

std::string head_text(const Response& response, bool keep_alive) {
  std::string head;
  head.reserve(256 + response.body.size());
  const auto line = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  head.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  head.append(reason_phrase(response.status)).append("\r\n");
  for (const Header& header : response.headers) line(header.name, header.value);
  if (!response.body.empty()) line("Content-Type", response.content_type);
  if (!keep_alive) line("Connection", "close");
  if (response.status != 204) line("Content-Length", std::to_string(response.body.size()));
  return head.append("\r\n");
}

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool ServerCore::make_room() {
  for (Connection* connection : idle) {
    if (connection->pinned()) continue;
    ++counts.dropped_idle;
    connection->close();
    return true;
  }
  return false;
}

void ServerCore::run_in_pool(std::function<void()> action) {
  if (!pool) pool.emplace(limits.pool_threads);
  asio::post(*pool, std::move(action));
}

void ServerCore::check_stopped() {
  if (!stopping || !open.empty() || !stopped) return;
  asio::post(io, std::exchange(stopped, {}));
}

Connection::Connection(std::shared_ptr<ServerCore> core, asio::generic::stream_protocol::socket socket, Peer peer)
    : core_(std::move(core)), stream_(std::move(socket)), peer_(std::move(peer)) {}

void Connection::start() { wait_for_request(); }

void Connection::leave_idle() {
  if (is_idle_) core_->idle.erase(idle_place_);
  is_idle_ = false;
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();  // the list of open ones may hold the last other reference
  leave_idle();
  stream_.close();
  comment_timer_.reset();
  core_->open.erase(peer_.connection);
  if (events_) events_->closed();
  if (core_->on_disconnect) core_->on_disconnect(peer_.connection);
  core_->check_stopped();
}

void Connection::finish() {
  keep_alive_ = false;
  if (!answering_ || events_) close();
}

void Connection::wait_for_request() {
  if (closed_) return;
  if (core_->stopping) return close();
  if (buffer_.size() > 0) return read_request();  // pipelined
  is_idle_ = true;
  idle_place_ = core_->idle.insert(core_->idle.end(), this);
  if (pinned_) {
    stream_.expires_never();
  } else {
    stream_.expires_after(duration_of(core_->limits.idle));
  }
  stream_.async_read_some(buffer_.prepare(kFirstRead),
                          [self = shared_from_this()](error_code error, std::size_t count) {
                            self->leave_idle();
                            if (error) return self->close();
                            self->buffer_.commit(count);
                            self->read_request();
                          });
}

void Connection::read_request() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(core_->limits.header_bytes));
  parser_->body_limit(core_->limits.body_bytes);
  stream_.expires_after(duration_of(core_->limits.read));
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->refuse_request(error);
    self->dispatch();
  });
}

void Connection::refuse_request(error_code error) {
  const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream && error != http::error::partial_message;
  if (!malformed) return close();
  ++core_->counts.bad_requests;
  keep_alive_ = false;
  answering_ = true;
  if (error == http::error::body_limit) {
    return respond(problem_response(413, "a body may have " + std::to_string(core_->limits.body_bytes) + " bytes"));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return respond(problem_response(431, "headers may have " + std::to_string(core_->limits.header_bytes) + " bytes"));
  }
  respond(problem_response(400, "this is no HTTP/1.1 request: " + error.message()));
}

void Connection::dispatch() {
  stream_.expires_never();  // the handler takes its own time
  answering_ = true;
  ++core_->counts.requests;
  auto& message = parser_->get();
  head_ = message.method() == http::verb::head;
  keep_alive_ = keep_alive_ && message.keep_alive();
  auto request = std::make_shared<Request>();
  request->method = std::string(view_of(message.method_string()));
  request->peer = peer_;
  auto target = parse_target(view_of(message.target()));
  if (!target) return respond(problem_response(400, "the request's target is no path with well-formed escapes"));
  request->path = std::move(target->path);
  request->query = std::move(target->query);
  for (const auto& field : message) {
    request->headers.push_back({std::string(view_of(field.name_string())), std::string(view_of(field.value()))});
  }
  request->body = std::move(message.body());

  const Router::Match match = core_->router.match(*request);
  if (match.route == nullptr) return respond(match.refusal);
  const Route& route = *match.route;
  try {
    core_->router.check(*request, route);
    if (const auto* handler = std::get_if<Handler>(&route.handler)) {
      run_handler(*handler, route, request);
    } else if (const auto* async_handler = std::get_if<AsyncHandler>(&route.handler)) {
      // An answer from within the handler waits for its end, since the handler may still throw; a later one goes out at
      // once where this thread gives it.
      const std::shared_ptr<void> handled(nullptr, [this](void*) { handling_ = false; });
      handling_ = true;
      Reply reply(
          [weak = weak_from_this(), &io = core_->io](Response response) {
            auto action = [weak, answer = std::move(response)]() mutable {
              if (const auto self = weak.lock()) self->respond(answer);
            };
            if (!io.get_executor().running_in_this_thread()) return asio::post(io, std::move(action));
            const auto self = weak.lock();
            if (self && self->handling_) return asio::post(io, std::move(action));
            action();
          },
          route.errors);
      (*async_handler)(*request, reply);
    } else {
      run_stream(std::get<StreamHandler>(route.handler), *request);
    }
  } catch (const std::exception& error) {
    respond(route.errors(error));
  }
}

void Connection::run_handler(const Handler& handler, const Route& route, const std::shared_ptr<Request>& request) {
  if (route.runs == Runs::kInLoop) return respond(handler(*request));
  core_->run_in_pool([weak = weak_from_this(), &io = core_->io, &handler, &route, request] {
    Response response;
    try {
      response = handler(*request);
    } catch (const std::exception& error) {
      response = route.errors(error);
    }
    asio::post(io, [weak, answer = std::move(response)]() mutable {
      if (const auto self = weak.lock()) self->respond(answer);
    });
  });
}

// Most responses fit into the socket's buffer: they are sent at once, without a timer, so that thousands of waiting
// clients can be answered in one go. What follows is left to the loop's next turn.
void Connection::respond(const Response& response) {
  if (closed_ || !answering_ || responding_ || events_) return;
  responding_ = true;
  const bool keep_alive = keep_alive_ && !core_->stopping;
  output_ = head_text(response, keep_alive);
  if (!head_) output_ += response.body;
  const ssize_t count =
      ::send(stream_.socket().native_handle(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  const std::size_t sent = count > 0 ? static_cast<std::size_t>(count) : 0;
  if (sent == output_.size()) {
    asio::post(core_->io, [self = shared_from_this(), keep_alive] { self->responded({}, keep_alive); });
    return;
  }
  // An error of the socket shows here again.
  stream_.expires_after(duration_of(core_->limits.write));
  asio::async_write(
      stream_, asio::buffer(output_.data() + sent, output_.size() - sent),
      [self = shared_from_this(), keep_alive](error_code error, std::size_t) { self->responded(error, keep_alive); });
}

void Connection::responded(error_code error, bool keep_alive) {
  if (closed_) return;
  output_ = {};
  parser_.reset();
  responding_ = false;
  answering_ = false;
  if (error) return close();
  written(keep_alive);
}

void Connection::written(bool keep_alive) {
  if (keep_alive) return wait_for_request();
  // What the client still sends is read and thrown away for a moment: closing on unread bytes would reset the
  // connection and could take the response with it.
  error_code ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  stream_.expires_after(std::chrono::seconds(1));
  drain();
}

void Connection::drain() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, std::size_t count) {
    self->drained_ += count;
    if (error || self->drained_ > kMostDrained || self->core_->stopping) return self->close();
    self->drain();
  });
}

// --- Streams -----------------------------------------------------------------------------------------------------

void Connection::run_stream(const StreamHandler& handler, const Request& request) {
  const auto begin = handler(request);
  events_ = std::make_shared<StreamQueue>(core_->io, weak_from_this(), core_->limits.stream_queue_bytes);
  keep_alive_ = false;
  stream_.expires_never();
  buffer_.clear();
  watch_for_end();
  writing_ = kStreamHead;
  flush_stream();
  schedule_comment();
  begin(events_);
}

// The client has nothing more to say on a stream; what is read is the end of the connection, or is ignored.
void Connection::watch_for_end() {
  stream_.async_read_some(buffer_.prepare(kFirstRead), [self = shared_from_this()](error_code error, std::size_t) {
    if (error) return self->close();
    if (!self->closed_) self->watch_for_end();
  });
}

void Connection::flush_stream() {
  if (closed_ || stream_writes_) return;  // a write under way flushes again when it is done
  if (writing_.empty()) writing_ = events_->take();
  if (writing_.empty()) return;
  stream_writes_ = true;
  stream_.expires_after(duration_of(core_->limits.write));
  asio::async_write(stream_, asio::buffer(writing_), [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (error == beast::error::timeout) ++self->core_->counts.dropped_slow;
    if (error) return self->close();
    self->stream_writes_ = false;
    self->writing_.clear();
    self->flush_stream();
  });
}

void Connection::drop_slow_stream() {
  if (closed_) return;
  ++core_->counts.dropped_slow;
  close();
}

void Connection::schedule_comment() {
  comment_timer_.emplace(core_->io, duration_of(core_->limits.stream_comment));
  comment_timer_->async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_) return;
    self->events_->queue_comment();
    self->schedule_comment();
  });
}

bool StreamQueue::append(std::string_view text) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    queued_ += text;
    if (queued_.size() > limit_) {
      closed_ = true;
      action = [connection = connection_] {
        if (const auto alive = connection.lock()) alive->drop_slow_stream();
      };
    } else if (!std::exchange(flush_asked_, true)) {
      action = [connection = connection_] {
        if (const auto alive = connection.lock()) alive->flush_stream();
      };
    }
  }
  if (action) asio::post(io_, std::move(action));
  return true;
}

bool StreamQueue::send(std::string_view name, std::string_view data) {
  std::string event;
  event.reserve(name.size() + data.size() + 16);
  if (!name.empty()) event.append("event: ").append(name).append("\n");
  event.append("data: ").append(data).append("\n\n");
  return append(event);
}

void StreamQueue::queue_comment() { append(":\n\n"); }

void StreamQueue::close() {
  asio::post(io_, [connection = connection_] {
    if (const auto alive = connection.lock()) alive->close();
  });
}

void StreamQueue::on_close(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    const auto connection = connection_.lock();
    if (connection && !closed_) {
      when_closed_ = std::move(action);
      return;
    }
    closed_ = true;
  }
  asio::post(io_, std::move(action));
}

std::string StreamQueue::take() {
  const std::lock_guard lock(mutex_);
  if (queued_.empty()) flush_asked_ = false;
  return std::exchange(queued_, {});
}

void StreamQueue::closed() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    action = std::exchange(when_closed_, {});
  }
  if (action) action();
}

}  // namespace flyball
