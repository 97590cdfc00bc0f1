// Work that runs ahead of its user: a thread fills blocks while the caller uses those before. Header only.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace flyball {

// A Block is default-constructible and moves cheaply. What it holds of memory goes round.
template <class Block>
class Ahead {
 public:
  // `fill` makes a block of what may be an old one, on a thread, and says whether there was anything left for one.
  explicit Ahead(std::function<bool(Block&)> fill) : fill_(std::move(fill)), thread_([this] { run(); }) {}
  // Waits for the block that is being filled.
  ~Ahead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // The next block in place of one that is used up; false at the end, when the thread has done its last. Throws what
  // `fill` threw, after the blocks before it.
  [[nodiscard]] bool next(Block& block) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !filled_.empty() || ended_; });
      if (filled_.empty()) {
        if (failure_) std::rethrow_exception(failure_);
        return false;
      }
      std::swap(block, filled_.front());
      used_.push_back(std::move(filled_.front()));
      filled_.pop_front();
    }
    changed_.notify_all();
    return true;
  }

 private:
  static constexpr std::size_t kMostFilled = 2;

  void run() {
    for (bool more = true; more;) {
      Block block;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return filled_.size() < kMostFilled || stop_; });
        if (stop_) return;
        if (!used_.empty()) {
          block = std::move(used_.back());
          used_.pop_back();
        }
      }
      std::exception_ptr failure;
      try {
        more = fill_(block);
      } catch (...) {
        failure = std::current_exception();
        more = false;
      }
      {
        const std::lock_guard lock(mutex_);
        if (more) filled_.push_back(std::move(block));
        ended_ = !more;
        failure_ = failure;
      }
      changed_.notify_all();
    }
  }

  std::function<bool(Block&)> fill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> filled_;
  std::deque<Block> used_;
  bool ended_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace flyball
