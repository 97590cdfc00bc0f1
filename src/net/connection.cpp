// A connection is a chain of asynchronous operations, each of which holds a shared_ptr to it: wait for bytes, read the
// head, then the body, dispatch to a handler, send, and again. Responses of one turn of the loop go into an outbox and
// are sent together. ServerCore keeps idle connections in a list by the time since when they idle, so that the one to
// close first is at its front.
#include "net/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include "base/contain.h"
#include "base/processors.h"
#include "base/utf8.h"
#include "net/tls.h"

namespace flyball {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kFirstRead = 512;  // what an idle connection keeps ready
constexpr std::size_t kMostDrained = 4u << 20u;
constexpr std::size_t kSharedFrom = 128;  // from so many responses in one turn on, several threads send them
constexpr auto kLookAgain = std::chrono::seconds(1);
constexpr std::size_t kPortion = 16;  // that a thread takes at a time

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
  if (response.status != 204 && response.status != 304) line("Content-Length", std::to_string(size));
  return head.append("\r\n");
}

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

struct Refusal {
  unsigned status;
  std::string_view why;
};

// Of "name", "name:4940", "[::1]:4940".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, std::min(host.find(']'), host.size()) - 1);
  return host.substr(0, host.rfind(':'));
}

bool is_known_name(std::string_view host, const std::string& own_name) {
  std::string_view name = without_port(host);
  if (name.ends_with('.')) name.remove_suffix(1);
  error_code error;
  (void)asio::ip::make_address(std::string(name), error);
  return !error || beast::iequals(name, "localhost") || beast::iequals(name, own_name);
}

// Checks what the parser accepts and a server must refuse.
std::optional<Refusal> refusal_of(const http::request<http::string_body>& head) {
  const bool is_1_1 = head.version() == 11;
  const std::size_t hosts = head.count(http::field::host);
  if (is_1_1 && hosts != 1) return Refusal{400, "a request of HTTP/1.1 has one Host header"};
  // A body of unknown length would be taken for the next request.
  const std::size_t encodings = head.count(http::field::transfer_encoding);
  if (encodings > 0 && !is_1_1) return Refusal{400, "Transfer-Encoding is no part of HTTP/1.0"};
  if (encodings > 1 || (encodings == 1 && !beast::iequals(head[http::field::transfer_encoding], "chunked"))) {
    return Refusal{501, "this server knows no transfer encoding but chunked"};
  }
  if (is_1_1 && head.count(http::field::expect) > 0 && !beast::iequals(head[http::field::expect], "100-continue")) {
    return Refusal{417, "this server knows no expectation but 100-continue"};
  }
  for (const auto& field : head) {
    if (!is_utf8(view_of(field.value()))) return Refusal{400, "a header is not UTF-8"};
  }
  return std::nullopt;
}

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
  asio::post(*pool, [todo = std::move(action)] { (void)contained("a pool's thread", todo); });
}

// Responses that several threads send, each taking a few at a time. It is shared, for a thread may come to it when all
// is done.
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
  for (std::size_t i = 1; i < threads; ++i) {
    asio::post(*senders, [share] { (void)contained("a sender's thread", [&] { share->work(); }); });
  }
}

// Where thousands of clients wait for the same news, sending is nearly all the work, and nearly all of it in the
// kernel. A few threads therefore share it, and begin while later responses are still being composed. The loop's thread
// takes part and waits until every response is sent. Nobody else touches these connections meanwhile: a connection does
// not read while its response is on its way, and the check for clients that have gone skips it.
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
  enter_idle();
  stream_.expires_after(duration_of(core_->limits.read));
  stream_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](error_code error) {
    if (self->closed_) return;
    if (!error) return self->wait_for_request();
    asio::post(self->core_->io, [self, error] { self->refuse_handshake(error); });
  });
}

void Connection::refuse_handshake(error_code error) {
  if (closed_) return;
  leave_idle();
  ++core_->counts.bad_requests;
  if (!is_plain_http(error)) return close();
  stream_.end_tls();
  keep_alive_ = false;
  answering_ = true;
  respond(problem_response(400, "this port speaks TLS; use https://"));
}

// Until a whole request is there, the connection may be closed to make room: a client that sends one byte by byte must
// not keep others out. It goes to the end of the list, since it has shown life just now.
void Connection::enter_idle() {
  if (is_idle_) return core_->idle.splice(core_->idle.end(), core_->idle, idle_place_);
  idle_place_ = core_->idle.insert(core_->idle.end(), this);
  is_idle_ = true;
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
  look_timer_.reset();
  core_->open.erase(peer_.connection);
  if (const auto of_party = core_->open_of_party.find(peer_.party); --of_party->second == 0) {
    core_->open_of_party.erase(of_party);
  }
  if (events_) events_->closed();
  if (core_->on_disconnect) (void)contained("a disconnect", [this] { core_->on_disconnect(peer_.connection); });
  core_->check_stopped();
}

void Connection::finish() {
  keep_alive_ = false;
  if (!answering_ || events_) close();
}

void Connection::wait_for_request() {
  if (closed_) return;
  if (core_->stopping) return close();
  enter_idle();
  if (buffer_.size() > 0) return read_request();  // pipelined
  if (pinned_) {
    stream_.expires_never();
  } else {
    stream_.expires_after(duration_of(core_->limits.idle));
  }
  stream_.async_read_some(buffer_.prepare(kFirstRead),
                          [self = shared_from_this()](error_code error, std::size_t count) {
                            if (self->closed_) return;
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
  http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->refuse_request(error);
    if (!contained("a request", [&] { self->take_head(); })) self->close();
  });
}

void Connection::take_head() {
  const auto& head = parser_->get();
  head_ = head.method() == http::verb::head;
  if (const auto refusal = refusal_of(head)) return refuse(refusal->status, refusal->why);
  const auto& only_as = core_->limits.only_as;
  if (only_as && !peer_.local && head.count(http::field::host) > 0 &&
      !is_known_name(view_of(head[http::field::host]), *only_as)) {
    return refuse(421,
                  "a server without a token is asked as localhost, or by a numeric address; by another name, a page of "
                  "another site might be asking");
  }
  if (parser_->is_done()) return dispatch();
  enter_idle();  // again: those that have sent a head are closed after those that have not
  if (head.version() == 11 && head.count(http::field::expect) > 0) return say_continue();
  read_body();
}

// A client that asks before it sends a large body waits for this answer.
void Connection::say_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue), [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->close();
    self->read_body();
  });
}

void Connection::read_body() {
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->refuse_request(error);
    if (!contained("a request", [&] { self->dispatch(); })) self->close();
  });
}

void Connection::refuse_request(error_code error) {
  const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream && error != http::error::partial_message;
  if (!malformed) return close();
  if (error == http::error::body_limit) {
    return refuse(413, "a body may have at most " + std::to_string(core_->limits.body_bytes) + " bytes");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, "headers may have at most " + std::to_string(core_->limits.header_bytes) + " bytes");
  }
  refuse(400, "this is no HTTP/1.1 request: " + error.message());
}

// Nobody can tell where the next request begins, so that the connection ends.
void Connection::refuse(unsigned status, std::string_view why) {
  leave_idle();
  ++core_->counts.bad_requests;
  keep_alive_ = false;
  answering_ = true;
  respond(problem_response(status, why));
}

void Connection::dispatch() {
  leave_idle();
  stream_.expires_never();  // the handler takes its own time
  answering_ = true;
  said_all_ = false;
  ++core_->counts.requests;
  auto& message = parser_->get();
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
          [errors = route.errors, path = request->path](const std::exception& error) {
            return error_response(errors, path, error);
          },
          [weak = weak_from_this()] { return weak.expired(); });
      (*async_handler)(*request, reply);
      watch_while_answering();
    } else {
      run_stream(std::get<StreamHandler>(route.handler), *request);
    }
  } catch (const std::exception& error) {
    if (events_) {  // its head may be on the way
      note_contained(request->path, std::current_exception());
      return close();
    }
    respond(error_response(route.errors, request->path, error));
  }
}

void Connection::run_handler(const Handler& handler, const Route& route, const std::shared_ptr<Request>& request) {
  if (route.runs == Runs::kInLoop) return respond(handler(*request));
  core_->run_in_pool([weak = weak_from_this(), &io = core_->io, &handler, &route, request] {
    Response response;
    try {
      response = handler(*request);
    } catch (const std::exception& error) {
      response = error_response(route.errors, request->path, error);
    } catch (...) {
      note_contained(request->path, std::current_exception());
      response = problem_response(500, "an exception of an unknown kind");
    }
    asio::post(io, [weak, answer = std::move(response)]() mutable {
      if (const auto self = weak.lock()) self->respond(std::move(answer));
    });
  });
}

// A client may leave while it waits for its answer; then nothing that is kept for it should stay. This only looks and
// reads nothing: what has arrived may be the next request, which is read later.
void Connection::watch_while_answering() {
  if (watching_ || closed_ || !answering_ || responding_) return;
  watching_ = true;
  stream_.socket().async_wait(asio::socket_base::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (!error) self->look_whether_gone();
  });
}

void Connection::look_whether_gone() {
  if (closed_ || !answering_ || responding_ || events_) return;
  pollfd look{stream_.socket().native_handle(), POLLRDHUP, 0};
  ::poll(&look, 1, 0);
  const auto told = static_cast<unsigned>(look.revents);
  const bool gone = (told & (POLLHUP | POLLERR)) != 0;
  if (gone || said_all_) {
    ++core_->counts.abandoned;
    return close();
  }
  // A client that has only closed its sending side may still listen, and gets a second. One that has sent its next
  // request already is looked at again, since its end may stand behind that.
  said_all_ = (told & POLLRDHUP) != 0;
  watching_ = true;
  look_timer_.emplace(core_->io, kLookAgain);
  look_timer_->async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->watching_ = false;
    self->look_whether_gone();
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
  if (count > 0) sent_ = static_cast<std::size_t>(count);  // an error of the socket shows again in send_rest()
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

}  // namespace flyball
