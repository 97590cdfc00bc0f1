// Used inside HttpServer and HttpClient: one type that stands for Unix sockets, TCP, and TLS over TCP. Only files of
// this folder include it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>

#include "base/monotonic_time.h"

namespace flyball {

// The function that is called when an operation has ended: any movable function of an error and a count of bytes. It is
// one type, so that the operations below are compiled once instead of once for every handler, which would take most of
// this folder's compile time.
class IoHandler {
 public:
  template <class Function>
  requires(!std::is_same_v<Function, IoHandler>)
      IoHandler(Function function)  // NOLINT(google-explicit-constructor): stands for any handler
      : held_(std::make_unique<Of<Function>>(std::move(function))) {}

  // To be called once.
  void operator()(boost::system::error_code error, std::size_t count = 0) {
    std::exchange(held_, nullptr)->call(error, count);
  }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual void call(boost::system::error_code error, std::size_t count) = 0;
  };
  template <class Function>
  struct Of final : Held {
    explicit Of(Function from) : function(std::move(from)) {}
    void call(boost::system::error_code error, std::size_t count) override {
      if constexpr (std::is_invocable_v<Function&, boost::system::error_code, std::size_t>) {
        function(error, count);
      } else {
        function(error);
      }
    }
    Function function;
  };

  std::unique_ptr<Held> held_;
};

// A stream for Asio's composed operations to read and write. The time limits are the plain stream's, and hold for TLS
// as well.
class ByteStream {
 public:
  using Plain = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;
  using Tls = boost::asio::ssl::stream<Plain&>;
  using executor_type = Plain::executor_type;

  explicit ByteStream(boost::asio::io_context& io) : plain_(io) {}
  explicit ByteStream(boost::asio::generic::stream_protocol::socket socket) : plain_(std::move(socket)) {}
  ByteStream(const ByteStream&) = delete;  // tls_ holds on to plain_
  ByteStream& operator=(const ByteStream&) = delete;

  // From now on bytes go through TLS; a handshake comes first.
  void begin_tls(boost::asio::ssl::context& context) { tls_ = std::make_unique<Tls>(plain_, context); }
  // Goes back to plain bytes; must not be called from within an operation of tls().
  void end_tls() { tls_.reset(); }

  [[nodiscard]] Tls* tls() { return tls_.get(); }  // null: plain
  [[nodiscard]] executor_type get_executor() { return plain_.get_executor(); }
  [[nodiscard]] auto& socket() { return plain_.socket(); }

  void expires_after(std::chrono::nanoseconds time) { plain_.expires_after(time); }
  void expires_never() { plain_.expires_never(); }
  void cancel() { plain_.cancel(); }
  void close() { plain_.close(); }

  void async_connect(const boost::asio::generic::stream_protocol::endpoint& peer, IoHandler handler);
  void async_handshake(boost::asio::ssl::stream_base::handshake_type side, IoHandler handler);  // after begin_tls()
  void async_shutdown(IoHandler handler);                                                       // of TLS

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    read_some(*boost::asio::buffer_sequence_begin(buffers), std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    ConstBuffers some;  // the caller tries again with what did not fit
    auto at = boost::asio::buffer_sequence_begin(buffers);
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto& buffer : some) {
      if (at != end) buffer = *at++;
    }
    write_some(some, std::forward<Handler>(handler));
  }

 private:
  using ConstBuffers = std::array<boost::asio::const_buffer, 8>;

  void read_some(boost::asio::mutable_buffer buffer, IoHandler handler);
  void write_some(const ConstBuffers& buffers, IoHandler handler);

  Plain plain_;
  std::unique_ptr<Tls> tls_;  // not a member by value: its buffers are 34 kB, and thousands of streams are plain
};

}  // namespace flyball
