// One thread and one queue per stream. The first of the queue stays in it while it is under way, so that an empty queue
// is an idle stream. Work that finds the queue empty is put on the board by the thread that queues it.
#include "sim/cuda_stream.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace flyball {
namespace {

thread_local bool calling_host_function = false;

}  // namespace

bool SimStream::in_host_function() { return calling_host_function; }

std::shared_ptr<SimStream> SimStream::open(std::shared_ptr<Machine> machine, std::size_t board) {
  std::shared_ptr<SimStream> stream(new SimStream(std::move(machine), board));
  // Not joined by anybody: a program that ends does not wait for what it has queued.
  std::thread([stream] { stream->run(); }).detach();
  return stream;
}

void SimStream::queue(Operation operation) {
  const std::scoped_lock lock(mutex_);
  if (closed_ || failed_) return;
  operation.queued_at = machine_->now();
  if (operation.event && operation.kind == Kind::kEvent) {
    const std::scoped_lock event(operation.event->mutex);
    operation.recording = ++operation.event->recorded;
  } else if (operation.event) {
    const std::scoped_lock event(operation.event->mutex);
    operation.recording = operation.event->recorded;
  }
  if (operation.kind == Kind::kWork && operations_.empty() && !begin(operation)) failed_ = true;
  operations_.push_back(std::move(operation));
  ++queued_count_;
  queued_.notify_one();
}

void SimStream::queue_work(const WorkKind& kind, Seconds seconds) {
  Operation operation;
  operation.work = kind;
  operation.seconds = seconds;
  queue(std::move(operation));
}

void SimStream::queue_host_function(void (*function)(void*), void* data) {
  Operation operation;
  operation.kind = Kind::kHostFunction;
  operation.function = function;
  operation.data = data;
  queue(std::move(operation));
}

void SimStream::queue_event(std::shared_ptr<SimEvent> event) {
  Operation operation;
  operation.kind = Kind::kEvent;
  operation.event = std::move(event);
  queue(std::move(operation));
}

void SimStream::queue_wait(std::shared_ptr<SimEvent> event) {
  Operation operation;
  operation.kind = Kind::kWait;
  operation.event = std::move(event);
  queue(std::move(operation));
}

bool SimStream::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return operations_.empty();
}

bool SimStream::has_failed() const {
  const std::scoped_lock lock(mutex_);
  return failed_;
}

bool SimStream::wait() {
  std::unique_lock lock(mutex_);
  const std::uint64_t until = queued_count_;
  done_.wait(lock, [&] { return done_count_ >= until; });
  return !failed_;
}

void SimStream::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  queued_.notify_one();
}

// Returns false where the board takes no work.
bool SimStream::begin(Operation& operation) {
  const WorkBegin begun = begin_work(*machine_, board_, operation.work, operation.seconds);
  if (begun.result != WorkResult::kDone) return false;
  operation.slot = begun.slot;
  return true;
}

void SimStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return closed_ || !operations_.empty(); });
    if (operations_.empty()) return;
    if (!failed_ && operations_.front().kind == Kind::kWork && !operations_.front().slot) {
      failed_ = !begin(operations_.front());
    }
    const Operation operation = operations_.front();
    const bool skip = failed_;
    lock.unlock();
    if (!skip || operation.kind == Kind::kEvent) perform(operation);
    lock.lock();
    operations_.pop_front();
    ++done_count_;
    done_.notify_all();
  }
}

void SimStream::perform(const Operation& operation) {
  const Nanoseconds begin = std::max(reached_, operation.queued_at);
  switch (operation.kind) {
    case Kind::kWork: {
      const WorkRun run = wait_for_work(*machine_, board_, *operation.slot);
      reached_ = run.end;
      if (run.result == WorkResult::kDone) return;
      reached_ = machine_->now();
      const std::scoped_lock lock(mutex_);
      failed_ = true;
      return;
    }
    case Kind::kHostFunction:
      calling_host_function = true;
      operation.function(operation.data);
      calling_host_function = false;
      reached_ = machine_->now();
      return;
    case Kind::kEvent: {
      const std::scoped_lock lock(operation.event->mutex);
      operation.event->passed = std::max(operation.event->passed, operation.recording);
      operation.event->time = begin;
      reached_ = begin;
      operation.event->reached.notify_all();
      return;
    }
    case Kind::kWait: {
      std::unique_lock lock(operation.event->mutex);
      operation.event->reached.wait(lock, [&] { return operation.event->passed >= operation.recording; });
      reached_ = std::max(begin, operation.event->time);
      return;
    }
  }
}

}  // namespace flyball
