// Both ends of a transfer tell each other when they came to it, and so know the same beginning and the same end,
// however late a message wakes somebody up.
#include "exchange.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "flyball/sim.h"

namespace trainer {

double gpu_time_s() {
  double time_s = 0.0;
  if (flyball_sim_time(&time_s, nullptr) != FLYBALL_SIM_OK) throw Hangup("the simulated machine is gone");
  return time_s;
}

void sleep_until_gpu_time(double time_s) {
  double now_s = 0.0;
  double scale = 1.0;
  const auto now = std::chrono::steady_clock::now();
  if (flyball_sim_time(&now_s, &scale) != FLYBALL_SIM_OK || !(scale > 0.0) || now_s >= time_s) return;
  std::this_thread::sleep_until(now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                          std::chrono::duration<double>((time_s - now_s) / scale)));
}

Message LinkEnd::next(bool ready_word) {
  std::deque<Message>& wanted = kept_[ready_word ? 1 : 0];
  while (wanted.empty()) {
    const auto message = channel_.receive<Message>();
    kept_[message.is_ready_word].push_back(message);
  }
  const Message first = wanted.front();
  wanted.pop_front();
  return first;
}

void Exchange::meet() noexcept {
  try {
    const double here_s = gpu_time_s();
    std::mt19937_64 random(seed_);
    std::vector<double> lengths_s;
    for (const Side& side : sent_) {
      // Operations on real GPUs deviate by 0.02 to 0.26 %.
      lengths_s.push_back(side.link->length_s() * std::normal_distribution<>(1.0, 0.002)(random));
      side.link->post({0, side.microbatch, side.value, here_s, lengths_s.back()});
    }
    for (const Side& side : received_) side.link->post({1, side.microbatch, 0.0, here_s, 0.0});
    const auto meet = [&](const Side& side, bool sent, double length_s) {
      const Message there = side.link->next(sent);
      if (there.microbatch != side.microbatch) throw std::runtime_error("microbatches out of order");
      double& last_end_s = side.link->last_end_s(sent);
      last_end_s = std::max({last_end_s, here_s, there.time_s}) + (sent ? length_s : there.length_s);
      end_s_ = std::max(end_s_, last_end_s);
      return there.value;
    };
    for (std::size_t i = 0; i < sent_.size(); ++i) meet(sent_[i], true, lengths_s[i]);
    for (Side& side : received_) side.value = meet(side, false, 0.0);
  } catch (const std::exception& error) {
    failed_ = true;
    trouble_ = error.what();
  }
}

void Exchange::transfer() noexcept {
  if (!failed_) sleep_until_gpu_time(end_s_);
  const std::scoped_lock lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

double Exchange::received(const LinkEnd& link, int microbatch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  if (failed_) throw Hangup(trouble_);
  for (const Side& side : received_) {
    if (side.link == &link && side.microbatch == microbatch) return side.value;
  }
  throw std::runtime_error("a microbatch was not asked for");
}

}  // namespace trainer
