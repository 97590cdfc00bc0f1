// Used inside HttpServer: one client's connection. Only files of this folder include it.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "net/byte_stream.h"
#include "net/router.h"
#include "net/server.h"

namespace flyball {

class Connection;

// What the connections of one server share. To be used in the loop's thread only.
struct ServerCore : std::enable_shared_from_this<ServerCore> {
  ServerCore(boost::asio::io_context& context, Router routes, const ServerLimits& the_limits)
      : io(context), router(std::move(routes)), limits(the_limits) {}

  // Closes the longest idle connection that is not pinned, of one party where one is named; false where there is none.
  bool make_room(const std::string* party = nullptr);
  // Makes room for one more connection of the party where needed; false where that is not possible.
  bool admits(const std::string& party);
  void run_in_pool(std::function<void()> action);
  // Sends the connection's response at the loop's next turn, together with all others of this turn.
  void send_soon(std::shared_ptr<Connection> connection);
  void send_all();
  void share_outbox();
  void check_stopped();

  boost::asio::io_context& io;
  Router router;
  ServerLimits limits;
  ServerCounts counts;
  std::map<std::uint64_t, std::shared_ptr<Connection>> open;
  std::unordered_map<std::string, std::size_t> open_of_party;
  std::list<Connection*> idle;  // without a whole request; longest idle first
  std::function<void(std::uint64_t)> on_disconnect;
  std::optional<boost::asio::thread_pool> pool;
  struct Share;
  std::vector<std::shared_ptr<Connection>> outbox;
  std::vector<std::shared_ptr<Share>> shares;  // on their way
  std::optional<boost::asio::thread_pool> senders;
  bool stopping = false;
  std::function<void()> stopped;
};

class StreamQueue;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `tls` is null for plain bytes.
  Connection(std::shared_ptr<ServerCore> core, boost::asio::generic::stream_protocol::socket socket, Peer peer,
             boost::asio::ssl::context* tls);

  void start();
  void close();   // at once; again does nothing
  void finish();  // after the response under way
  void set_pinned(bool pinned) { pinned_ = pinned; }
  [[nodiscard]] bool pinned() const { return pinned_; }
  [[nodiscard]] const std::string& party() const { return peer_.party; }

  // For the core. send_now() tries to hand the whole response to the socket; any thread may call it while the loop's
  // thread waits for that.
  void send_now();
  void send_rest();

  // For the stream.
  void flush_stream();
  void drop_slow_stream();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void refuse_handshake(boost::system::error_code error);
  void wait_for_request();
  void read_request();
  void take_head();
  void say_continue();
  void read_body();
  void refuse_request(boost::system::error_code error);
  void refuse(unsigned status, std::string_view why);
  void dispatch();
  void run_handler(const Handler& handler, const Route& route, const std::shared_ptr<Request>& request);
  void run_stream(const StreamHandler& handler, const Request& request);
  void respond(Response response);
  void responded(boost::system::error_code error);
  void say_goodbye();
  void drain();
  void watch_for_end();
  void watch_while_answering();
  void look_whether_gone();
  void schedule_comment();
  void enter_idle();
  void leave_idle();

  std::shared_ptr<ServerCore> core_;
  ByteStream stream_;
  Peer peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string output_;                       // a response on its way: its head and body,
  std::shared_ptr<const std::string> tail_;  // and what follows
  std::size_t sent_ = 0;                     // of both
  std::shared_ptr<StreamQueue> events_;
  std::string writing_;  // events on their way
  std::optional<boost::asio::steady_timer> comment_timer_;
  std::optional<boost::asio::steady_timer> look_timer_;
  std::list<Connection*>::iterator idle_place_;
  std::size_t drained_ = 0;
  bool is_idle_ = false;
  bool stream_writes_ = false;
  bool head_ = false;
  bool keep_alive_ = true;
  bool stays_ = true;  // after the response on its way
  bool answering_ = false;
  bool handling_ = false;    // an asynchronous handler is being called
  bool responding_ = false;  // output_ is on its way
  bool closed_ = false;
  bool pinned_ = false;
  bool said_all_ = false;  // the client sends no more, at the last look
  bool watching_ = false;  // a wait is under way for the end of a client whose answer is due
};

// The queue of a stream, which any thread may append to.
class StreamQueue : public EventStream, public std::enable_shared_from_this<StreamQueue> {
 public:
  StreamQueue(boost::asio::io_context& io, std::weak_ptr<Connection> connection, std::size_t limit)
      : io_(io), connection_(std::move(connection)), limit_(limit) {}

  bool send(std::string_view name, std::string_view data) override;
  void close() override;
  void on_close(std::function<void()> action) override;

  // Loop's thread.
  [[nodiscard]] std::string take();  // empty: the next send() asks for a flush again
  void queue_comment();
  void closed();

 private:
  bool append(std::string_view text);

  boost::asio::io_context& io_;
  std::weak_ptr<Connection> connection_;
  std::size_t limit_;
  std::mutex mutex_;
  std::string queued_;  // guarded by mutex_, as are the next three
  bool flush_asked_ = false;
  bool closed_ = false;
  std::function<void()> when_closed_;
};

}  // namespace flyball
