// Streams of a simulated board: work, host functions and events that a program queues and does not wait for.
//
// A stream does its operations one after the other, in the order in which they were queued; each begins when the one
// before has ended. A host function holds up what is queued behind it. Between two operations a thread of the stream
// wakes up, which takes some tens of microseconds of the wall clock, as a driver's thread does. Only work that finds
// its stream empty begins at once.
//
// Thread-safe. Nothing here but wait() and a full process table waits for the board.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "sim/workload.h"

namespace flyball {

// A moment of a stream that is marked, and may be marked again. The fields are the mutex's.
struct SimEvent {
  explicit SimEvent(bool is_timed) : timed(is_timed) {}

  const bool timed;
  std::mutex mutex;
  std::condition_variable reached;
  std::uint64_t recorded = 0;  // how often it was queued
  std::uint64_t passed = 0;    // the last of these that a stream has come to
  Nanoseconds time = 0;        // of the simulated machine, when that was
};

class SimStream : public std::enable_shared_from_this<SimStream> {
 public:
  // Makes a stream and its thread. The thread lives until close() was called and all is done.
  static std::shared_ptr<SimStream> open(std::shared_ptr<Machine> machine, std::size_t board);

  void queue_work(const WorkKind& kind, Seconds seconds);
  // `function(data)` is called by the stream's thread. It must not wait for this stream.
  void queue_host_function(void (*function)(void*), void* data);
  void queue_event(std::shared_ptr<SimEvent> event);
  // What is queued afterwards waits until the event has come to where it is recorded now.
  void queue_wait(std::shared_ptr<SimEvent> event);

  [[nodiscard]] bool is_idle() const;
  // Waits until all that has been queued by now is done. Returns false where work failed, as on a lost board.
  bool wait();
  [[nodiscard]] bool has_failed() const;
  // Nothing is queued any more; what is, is done.
  void close();

  // Returns whether the calling thread is within a host function of any stream.
  [[nodiscard]] static bool in_host_function();

 private:
  enum class Kind { kWork, kHostFunction, kEvent, kWait };
  struct Operation {
    Kind kind = Kind::kWork;
    WorkKind work{};
    Seconds seconds;
    std::optional<std::size_t> slot;  // of work that has begun
    void (*function)(void*) = nullptr;
    void* data = nullptr;
    std::shared_ptr<SimEvent> event;
    std::uint64_t recording = 0;  // of the event
    Nanoseconds queued_at = 0;    // simulated
  };

  SimStream(std::shared_ptr<Machine> machine, std::size_t board) : machine_(std::move(machine)), board_(board) {}
  void queue(Operation operation);
  void run();
  void perform(const Operation& operation);
  bool begin(Operation& operation);

  const std::shared_ptr<Machine> machine_;
  const std::size_t board_;

  mutable std::mutex mutex_;
  std::condition_variable queued_;
  std::condition_variable done_;
  std::deque<Operation> operations_;  // the first one is under way
  std::uint64_t queued_count_ = 0;
  std::uint64_t done_count_ = 0;
  bool closed_ = false;
  bool failed_ = false;      // nothing is done any more
  Nanoseconds reached_ = 0;  // simulated time at which the last operation ended; the stream's thread's own
};

}  // namespace flyball
