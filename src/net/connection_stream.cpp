// A connection whose response is a stream of events, and the stream's queue: senders append text under a mutex, the
// first after a flush posts one to the loop, and one write at a time takes all that has been queued. A queue that grows
// beyond the limit ends the stream.
#include <chrono>
#include <utility>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>

#include "net/connection.h"

namespace flyball {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::size_t kReadAtOnce = 512;

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";

}  // namespace

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
  stream_.async_read_some(buffer_.prepare(kReadAtOnce), [self = shared_from_this()](error_code error, std::size_t) {
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
