// Transfers between neighbours that occupy both: a transfer begins when both GPUs have come to it, and neither computes
// before it has ended. What a stage sends and receives between two of its computations is posted together; what goes
// over a link in one direction goes one after the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "channel.h"

namespace trainer {

// What travels between stages: activations forwards, gradients backwards, and the word that a receiver is ready.
struct Message {
  std::int32_t is_ready_word = 0;
  std::int32_t microbatch = 0;
  double value = 0.0;
  double time_s = 0.0;    // of the GPUs, when the one at this end came to the transfer
  double length_s = 0.0;  // of the transfer
};

// One end of a link. For one thread at a time.
class LinkEnd {
 public:
  LinkEnd(const Channel& channel, double length_s) : channel_(channel), length_s_(length_s) {}

  void post(const Message& message) const { channel_.send(message); }
  // The next message of that kind; waits for it. Messages of the other kind are kept.
  [[nodiscard]] Message next(bool ready_word);
  [[nodiscard]] double length_s() const { return length_s_; }
  // When the last transfer in this direction ended.
  [[nodiscard]] double& last_end_s(bool sent) { return last_end_s_[sent ? 1 : 0]; }

 private:
  const Channel& channel_;
  const double length_s_;
  double last_end_s_[2] = {0.0, 0.0};
  std::deque<Message> kept_[2];
};

// What is posted between two computations. The two steps are called one after the other, by whichever thread stands for
// the GPU; received() by the process, which may wait for it.
class Exchange {
 public:
  struct Side {
    LinkEnd* link = nullptr;
    int microbatch = 0;
    double value = 0.0;
  };

  // `seed` decides by how much the lengths of what is sent differ from the links'.
  Exchange(std::vector<Side> sent, std::vector<Side> received, std::uint64_t seed)
      : sent_(std::move(sent)), received_(std::move(received)), seed_(seed) {}

  // Returns when the neighbours have come to the transfers, too.
  void meet() noexcept;
  // Returns when all of them have ended.
  void transfer() noexcept;
  // What came in over the link. Waits until it is there, and throws Hangup where a neighbour is gone.
  [[nodiscard]] double received(const LinkEnd& link, int microbatch);

 private:
  const std::vector<Side> sent_;
  std::vector<Side> received_;
  const std::uint64_t seed_;
  double end_s_ = 0.0;
  bool failed_ = false;
  std::string trouble_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

// The time of the simulated GPUs.
[[nodiscard]] double gpu_time_s();
// Returns when it is that late.
void sleep_until_gpu_time(double time_s);

}  // namespace trainer
