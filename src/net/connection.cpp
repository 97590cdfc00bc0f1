#include "net/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include "base/processors.h"
#include "net/tls.h"

namespace flyball {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kFirstRead = 512;  // what an idle connection keeps ready
constexpr std::size_t kMostDrained = 4u << 20u;
constexpr std::size_t kSharedFrom = 128;  // responses in one turn that several threads send
constexpr std::size_t kPortion = 16;      // that a thread takes at a time

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";

std::string head_text(const Response& response, bool keep_alive) {
  const std::size_t size = response.body.size() + (response.tail ? response.tail->size() : 0);
  std::string head;
  head.reserve(192 + response.body.size());
  const auto line = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  head.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  head.append(reason_phrase(response.status)).append("\r\n");
  for (const Header& header : response.headers) line(header.name, header.value);
  if (size > 0) line("Content-Type", response.content_type);
  if (!keep_alive) line("Connection", "close");
  if (response.status != 204) line("Content-Length", std::to_string(size));
  return head.append("\r\n");
}

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool ServerCore::make_room(const std::string* party) {
  for (Connection* connection : idle) {
    if (connection->pinned() || (party != nullptr && connection->party() != *party)) continue;
    ++counts.dropped_idle;
    connection->close();
    return true;
  }
  return false;
}

bool ServerCore::admits(const std::string& party) {
  const auto found = open_of_party.find(party);
  const std::size_t most = limits.connections_per_party;
  if (most > 0 && found != open_of_party.end() && found->second >= most) return make_room(&party);
  return open.size() < limits.connections || make_room();
}

void ServerCore::run_in_pool(std::function<void()> action) {
  if (!pool) pool.emplace(limits.pool_threads);
  asio::post(*pool, std::move(action));
}

// Responses that several threads send, each taking a few at a time. Not on anybody's stack: a thread may come when all is
// done.
struct ServerCore::Share {
  std::vector<std::shared_ptr<Connection>> batch;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};

  void work() {
    for (std::size_t at = next.fetch_add(kPortion); at < batch.size(); at = next.fetch_add(kPortion)) {
      const std::size_t end = std::min(at + kPortion, batch.size());
      for (std::size_t i = at; i < end; ++i) batch[i]->send_now();
      if (done.fetch_add(end - at) + end - at == batch.size()) done.notify_one();
    }
  }
  void wait() const {
    for (std::size_t count = done; count < batch.size(); count = done) done.wait(count);
  }
};

void ServerCore::send_soon(std::shared_ptr<Connection> connection) {
  outbox.push_back(std::move(connection));
  if (outbox.size() == 1) asio::post(io, [self = shared_from_this()] { self->send_all(); });
  if (outbox.size() >= kSharedFrom) share_outbox();
}

void ServerCore::share_outbox() {
  const auto share = std::make_shared<Share>();
  share->batch = std::exchange(outbox, {});
  shares.push_back(share);
  const std::size_t threads = limits.sending_threads > 0 ? limits.sending_threads : std::min(usable_processors(), 4u);
  if (threads < 2 || share->batch.size() < kSharedFrom) return;
  if (!senders) senders.emplace(threads - 1);
  for (std::size_t i = 1; i < threads; ++i) asio::post(*senders, [share] { share->work(); });
}

// Sending is nearly all kernel time, and of one news to thousands of waiting clients there is nothing else to do: a few
// threads share it, and begin while the later responses are still being composed. The loop's thread takes part and waits
// until every response is sent. Nobody else touches the connections meanwhile: one whose response is on its way neither
// reads nor has a timer.
void ServerCore::send_all() {
  if (!outbox.empty()) share_outbox();
  const auto all = std::exchange(shares, {});
  for (const auto& share : all) share->work();
  for (const auto& share : all) {
    share->wait();
    for (const auto& connection : share->batch) connection->send_rest();
  }
}

void ServerCore::check_stopped() {
  if (!stopping || !open.empty() || !stopped) return;
  asio::post(io, std::exchange(stopped, {}));
}

Connection::Connection(std::shared_ptr<ServerCore> core, asio::generic::stream_protocol::socket socket, Peer peer,
                       asio::ssl::context* tls)
    : core_(std::move(core)), stream_(std::move(socket)), peer_(std::move(peer)) {
  if (tls != nullptr) stream_.begin_tls(*tls);
}

void Connection::start() {
  if (stream_.tls() == nullptr) return wait_for_request();
  stream_.expires_after(duration_of(core_->limits.read));
  stream_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](error_code error) {
    if (self->closed_) return;
    if (!error) return self->wait_for_request();
    asio::post(self->core_->io, [self, error] { self->refuse_handshake(error); });
  });
}

void Connection::refuse_handshake(error_code error) {
  if (closed_) return;
  ++core_->counts.bad_requests;
  if (!is_plain_http(error)) return close();
  stream_.end_tls();
  keep_alive_ = false;
  answering_ = true;
  respond(problem_response(400, "this port speaks TLS; use https://"));
}

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
  if (const auto of_party = core_->open_of_party.find(peer_.party); --of_party->second == 0) {
    core_->open_of_party.erase(of_party);
  }
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
            if (io.get_executor().running_in_this_thread()) {
              const auto self = weak.lock();
              if (!self) return;
              if (!self->handling_) return self->respond(std::move(response));
            }
            asio::post(io, [weak, answer = std::move(response)]() mutable {
              if (const auto self = weak.lock()) self->respond(std::move(answer));
            });
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
      if (const auto self = weak.lock()) self->respond(std::move(answer));
    });
  });
}

void Connection::respond(Response response) {
  if (closed_ || !answering_ || responding_ || events_) return;
  responding_ = true;
  stays_ = keep_alive_ && !core_->stopping;
  output_ = head_text(response, stays_);
  if (!head_) {
    output_ += response.body;
    tail_ = std::move(response.tail);
  }
  core_->send_soon(shared_from_this());
}

// Most responses fit into the socket's buffer and need neither a timer nor a turn of the loop.
void Connection::send_now() {
  sent_ = 0;
  if (closed_ || stream_.tls() != nullptr) return;
  iovec parts[2] = {{output_.data(), output_.size()}, {nullptr, 0}};
  if (tail_) parts[1] = {const_cast<char*>(tail_->data()), tail_->size()};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = tail_ ? 2 : 1;
  const ssize_t count = ::sendmsg(stream_.socket().native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) sent_ = static_cast<std::size_t>(count);  // an error of the socket shows again below
}

void Connection::send_rest() {
  if (closed_) return;
  const std::string_view tail = tail_ ? std::string_view(*tail_) : std::string_view();
  if (sent_ == output_.size() + tail.size()) return responded({});
  const std::array<asio::const_buffer, 2> rest = {
      asio::buffer(output_) + sent_,
      asio::buffer(tail.data(), tail.size()) + (sent_ > output_.size() ? sent_ - output_.size() : 0)};
  stream_.expires_after(duration_of(core_->limits.write));
  asio::async_write(stream_, rest,
                    [self = shared_from_this()](error_code error, std::size_t) { self->responded(error); });
}

void Connection::responded(error_code error) {
  if (closed_) return;
  output_ = {};
  tail_.reset();
  parser_.reset();
  responding_ = false;
  answering_ = false;
  if (error) return close();
  if (stays_) return wait_for_request();
  say_goodbye();
}

void Connection::say_goodbye() {
  stream_.expires_after(std::chrono::seconds(1));
  if (stream_.tls() != nullptr) {
    return stream_.async_shutdown([self = shared_from_this()](error_code) { self->close(); });
  }
  // What the client still sends is read and thrown away for a moment: closing on unread bytes would reset the
  // connection and could take the response with it.
  error_code ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
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
