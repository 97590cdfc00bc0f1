// Events whose source works on a thread of its own, ahead of who attributes them. Header only.
#pragma once

#include <cstddef>
#include <vector>

#include "account/ahead.h"
#include "account/trace.h"

namespace flyball {

class EventsAhead final : public EventSource {
 public:
  // Until next() has said false or this is gone, nobody else may touch the source or the tables that it fills.
  explicit EventsAhead(EventSource& source) : blocks_([&source](Block& block) { return fill(source, block); }) {}

  bool next(TraceEvent& event) override {
    if (at_ == block_.size()) {
      at_ = 0;
      if (!blocks_.next(block_)) {
        block_.clear();
        return false;
      }
    }
    event = block_[at_++];
    return true;
  }

 private:
  using Block = std::vector<TraceEvent>;
  static constexpr std::size_t kBlock = 8192;

  static bool fill(EventSource& source, Block& block) {
    block.resize(kBlock);
    std::size_t count = 0;
    while (count < kBlock && source.next(block[count])) ++count;
    block.resize(count);
    return count > 0;
  }

  Block block_;
  std::size_t at_ = 0;
  Ahead<Block> blocks_;
};

}  // namespace flyball
