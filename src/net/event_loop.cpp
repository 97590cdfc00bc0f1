// One Asio io_context with a single thread. What is waited for is an object on the heap that its handle owns; the
// completion handler holds a weak_ptr to it, so that dropping the handle forgets the action even where the event is
// already on its way. A periodic timer counts from its last due time, unless that is past.
#include "net/event_loop.h"

#include <poll.h>

#include <chrono>
#include <utility>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/contain.h"
#include "base/monotonic_time.h"
#include "net/event_loop_impl.h"

namespace flyball {
namespace {

namespace asio = boost::asio;

struct Timer {
  Timer(asio::io_context& io, std::function<void()> todo) : timer(io), action(std::move(todo)) {}

  asio::steady_timer timer;
  std::function<void()> action;
};

void wait_for(const std::shared_ptr<Timer>& timer) {
  timer->timer.async_wait([weak = std::weak_ptr(timer)](boost::system::error_code error) {
    const auto alive = weak.lock();
    if (!error && alive) alive->action();
  });
}

void wait_periodically(const std::shared_ptr<Timer>& timer, std::chrono::nanoseconds period) {
  timer->timer.async_wait([weak = std::weak_ptr(timer), period](boost::system::error_code error) {
    const auto alive = weak.lock();
    if (error || !alive) return;
    (void)contained("a timer", alive->action);  // the next time is another try
    const auto due = alive->timer.expiry() + period;
    const auto now = std::chrono::steady_clock::now();
    alive->timer.expires_at(due > now ? due : now + period);
    wait_periodically(alive, period);
  });
}

struct Readable {
  Readable(asio::io_context& io, int descriptor) : stream(io, descriptor) {}
  ~Readable() { stream.release(); }  // the descriptor is the caller's
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  asio::posix::stream_descriptor stream;
  std::function<void()> action;
};

// A wait may end although nothing is to be read: an event that was on its way to a descriptor which has just been
// forgotten reaches the one that took its place.
bool is_readable(int descriptor) {
  pollfd look{descriptor, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;  // an error of the descriptor is news, too; one of poll() is not
}

void wait_readable(const std::shared_ptr<Readable>& readable) {
  readable->stream.async_wait(asio::posix::stream_descriptor::wait_read,
                              [weak = std::weak_ptr(readable)](boost::system::error_code error) {
                                const auto alive = weak.lock();
                                if (error || !alive) return;
                                if (!is_readable(alive->stream.native_handle())) return wait_readable(alive);
                                alive->action();
                              });
}

struct Signals {
  explicit Signals(asio::io_context& io) : set(io) {}

  asio::signal_set set;
  std::function<void(int)> action;
};

void wait_for_signal(const std::shared_ptr<Signals>& signals) {
  signals->set.async_wait([weak = std::weak_ptr(signals)](boost::system::error_code error, int signal) {
    const auto alive = weak.lock();
    if (error || !alive) return;
    (void)contained("a signal", [&] { alive->action(signal); });
    wait_for_signal(alive);
  });
}

}  // namespace

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  impl_->io.restart();
  // An exception of one handler must not end the loop, which goes on with the next.
  while (!contained("the event loop", [this] { impl_->io.run(); })) {
  }
}

void EventLoop::stop() { impl_->io.stop(); }

void EventLoop::post(std::function<void()> action) { asio::post(impl_->io, std::move(action)); }

EventLoop::Handle EventLoop::after(Seconds delay, std::function<void()> action) {
  auto timer = std::make_shared<Timer>(impl_->io, std::move(action));
  timer->timer.expires_after(duration_of(delay));
  wait_for(timer);
  return timer;
}

EventLoop::Handle EventLoop::every(Seconds period, std::function<void()> action) {
  auto timer = std::make_shared<Timer>(impl_->io, std::move(action));
  timer->timer.expires_after(duration_of(period));
  wait_periodically(timer, duration_of(period));
  return timer;
}

EventLoop::Handle EventLoop::when_readable(int descriptor, std::function<void()> action) {
  auto readable = std::make_shared<Readable>(impl_->io, descriptor);
  readable->action = std::move(action);
  wait_readable(readable);
  return readable;
}

EventLoop::Handle EventLoop::on_signals(const std::vector<int>& signals, std::function<void(int)> action) {
  auto watch = std::make_shared<Signals>(impl_->io);
  for (const int signal : signals) watch->set.add(signal);
  watch->action = std::move(action);
  wait_for_signal(watch);
  return watch;
}

}  // namespace flyball
