// Asks a vendor's library questions that it may never answer, with a deadline. A driver that hangs keeps the thread in
// which it was asked, and all that this thread needs; the caller goes on with DeviceFault::kTimeout.
//
// A question costs a thread, some 50 microseconds, which is right for listing devices and the like. Code that reads
// often has a thread of its own (sampler.h) or one per device (the agent).
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/units.h"
#include "driver/device_error.h"

namespace flyball {

// The limit for one call to an open device, where reads take microseconds and writes 10 ms.
inline constexpr Seconds kAnswerPatience{2.0};

// The limit for loading a library, or opening a device: a board that no process has open is started first, which takes
// seconds. It is 30 s, or what FLYBALL_DRIVER_TIMEOUT says ("5s", "500ms"). Throws UsageError where that is no time.
[[nodiscard]] Seconds opening_patience();

// Makes the error that is thrown instead of an answer.
[[nodiscard]] DeviceError no_answer(const std::string& device, Seconds patience);

// While an object of this class lives, its thread takes no signals. The threads that are started meanwhile take none as
// long as they run: signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Starts `work` in a thread that takes no signals.
[[nodiscard]] std::thread start_aside(std::packaged_task<void()> work);

// One question, asked at construction. Several devices can be asked at the same time, and then have the same deadline.
template <class Result>
class PendingAnswer {
 public:
  // `question` must own what it uses: it may outlive everything else here.
  template <class Question>
  explicit PendingAnswer(Question question) : begin_(std::chrono::steady_clock::now()) {
    std::packaged_task<Result()> task(std::move(question));
    answer_ = task.get_future();
    thread_ = start_aside(std::packaged_task<void()>([task = std::move(task)]() mutable { task(); }));
  }
  ~PendingAnswer() {
    if (thread_.joinable()) thread_.detach();
  }
  PendingAnswer(PendingAnswer&&) noexcept = default;
  PendingAnswer& operator=(PendingAnswer&&) = delete;

  // Returns or throws what the question did, or throws DeviceError kTimeout about `device` once `patience` has passed
  // since it was asked. May be called again only after kTimeout.
  [[nodiscard]] Result get(Seconds patience, const std::string& device) {
    const auto deadline = begin_ + std::chrono::nanoseconds(to_nanoseconds(patience));
    if (answer_.wait_until(deadline) != std::future_status::ready) throw no_answer(device, patience);
    thread_.join();
    return answer_.get();
  }

  // Returns whether the answer is there, so that get() would not wait.
  [[nodiscard]] bool arrived() const { return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::chrono::steady_clock::time_point begin_;
  std::future<Result> answer_;
  std::thread thread_;
};

// Asks one question and waits for its answer.
template <class Question>
auto answer_within(Seconds patience, const std::string& device, Question question) -> std::invoke_result_t<Question&> {
  return PendingAnswer<std::invoke_result_t<Question&>>(std::move(question)).get(patience, device);
}

// Makes a call that may hang and whose outcome matters to nobody, such as a library's last one, and waits for it for
// kAnswerPatience at most. `call` must own what it uses.
void call_aside(std::function<void()> call);

// Asks one device's questions one after another. While one of them hangs, the others are refused at once, since each
// would take its whole time limit and a thread. Not thread-safe.
class PatientQuestions {
 public:
  explicit PatientQuestions(std::string device, Seconds patience = kAnswerPatience)
      : device_(std::move(device)), patience_(patience) {}

  // Returns or throws what `question` does, or throws DeviceError kTimeout.
  template <class Question>
  auto ask(Question question) -> std::invoke_result_t<Question&> {
    if (hangs()) throw no_answer(device_, patience_);
    const auto hanging = std::make_shared<std::promise<void>>();
    hanging_ = hanging->get_future();
    return answer_within(patience_, device_, [question = std::move(question), hanging]() mutable {
      struct Returned {
        std::promise<void>& promise;
        ~Returned() { promise.set_value(); }
      } const returned{*hanging};
      return question();
    });
  }

  [[nodiscard]] bool hangs() const {
    return hanging_.valid() && hanging_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }

 private:
  std::string device_;
  Seconds patience_;
  std::future<void> hanging_;
};

}  // namespace flyball
