// What a session does on the timeline of its GPU: clocks that are asked for, and moments that are noted, when the GPU
// comes to a place of a stream. Engines that queue their work run ahead of the GPU, so that the moment of a call says
// nothing about the GPU's (docs/decisions/0062-clocks-in-the-stream.md).
//
// A clock is handed to the clock controller by a host function, which costs less than a microsecond, allocates nothing,
// waits for nothing and calls no driver. It is called beside the stream, which goes on. A moment is an event of the
// GPU, put on CLOCK_MONOTONIC by a function and an event close to each other, one such pair in some seconds. Neither
// holds the GPU up (docs/decisions/0090-beside-the-stream.md).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/units.h"
#include "client/clock_controller.h"
#include "driver/stream_library.h"

namespace flyball {

// For the training thread, with the context of the stream's GPU current, but for what its functions do in the driver's.
// Calls cost what queueing costs the driver, some microseconds, and allocate nothing, but for the first step with so
// many moments.
class DeviceTimeline {
 public:
  // How many functions may be queued and not yet called.
  static constexpr std::size_t kMostQueued = 4096;

  // `controller` may be null: clocks are then not set. `time_scale` is how many of the GPU's seconds one of this
  // machine has, 1 unless the GPU is simulated. Throws DeviceError as StreamLibrary and StreamFollower do.
  explicit DeviceTimeline(ClockController* controller, double time_scale = 1.0);
  // Functions that are called later do nothing. Does not wait for the GPU.
  ~DeviceTimeline();
  DeviceTimeline(const DeviceTimeline&) = delete;
  DeviceTimeline& operator=(const DeviceTimeline&) = delete;

  // A step begins whose clocks are given up when the GPU is at it for longer than `patience` (0: never), counted from
  // where it comes to the step's first clock.
  void step_begin(Nanoseconds patience);
  // Clocks that were queued before this call are not asked for after it.
  void forget_clocks();
  // Asks for the clock when all is done that was queued in the stream before. Asks at once where too many functions are
  // queued. With a `number`, notes the moment as well, as note() does. Throws DeviceError where the driver refuses.
  void set(void* stream, Megahertz clock, std::optional<std::size_t> number = std::nullopt);
  // Asks for the clock so much later than that, unless another one has been asked for by then. Returns false, and does
  // nothing, where more than half as many functions are queued as may be beside the stream: clocks that are due need
  // the places.
  bool set_after(void* stream, Megahertz clock, Nanoseconds later);
  // Returns whether a clock was given up since the last call.
  [[nodiscard]] bool take_late();

  // Notes the moment at which all is done that was queued in the stream before, under `number`, which this step has not
  // used yet. Throws DeviceError likewise.
  void note(void* stream, std::size_t number);
  // Returns the moment (CLOCK_MONOTONIC), or 0 where the GPU has not come to it. Asks the driver, and
  // waits for a function that is due, 20 ms at most, after the first of a step's moments in ten seconds.
  [[nodiscard]] Nanoseconds moment(std::size_t number) const;

 private:
  struct State;
  // What a queued function does.
  struct Call {
    std::atomic<bool> queued{false};
    State* state = nullptr;
    std::atomic<Nanoseconds>* moment = nullptr;  // null: none is noted
    bool asks = false;                           // for the clock
    Megahertz clock;
    Nanoseconds later = -1;  // by how much the clock is to be asked for; -1: it is due
    std::int64_t generation = 0;
    Nanoseconds patience = 0;
    bool first = false;  // clock of its step
  };
  // What outlives the session while functions are queued.
  struct State {
    ClockController* controller = nullptr;
    std::atomic<bool> closed{false};
    std::atomic<std::uint32_t> inside{0};     // functions that look at the controller just now
    std::atomic<std::uint64_t> users{1};      // the timeline, and functions that are queued
    std::atomic<std::int64_t> generation{0};  // clocks of older ones are not asked for
    std::atomic<Nanoseconds> late_at{0};      // of the step that the GPU is at; 0: never
    std::atomic<bool> late{false};
    std::array<Call, kMostQueued> calls;
    std::array<std::atomic<Nanoseconds>, 2> references{};  // CLOCK_MONOTONIC; 0: not yet
    std::deque<std::atomic<Nanoseconds>> moments;          // which stay where they are while it grows
  };
  // What a moment was noted by.
  struct Noted {
    std::unique_ptr<StreamEvent> event;  // null until the first time
    bool by_event = false;               // else by a function
    std::size_t reference = 0;
    Nanoseconds queued_at = 0;
  };

  struct LetGo {
    void operator()(State* state) const noexcept;
  };

  void wait_for_those_inside() const;
  [[nodiscard]] Call* free_call();
  [[nodiscard]] Noted& fresh_moment(std::size_t number);
  [[nodiscard]] bool has_reference(void* stream);
  void queue_clock(void* stream, Call& call, Megahertz clock, Nanoseconds later);
  void* queue(void* stream, Call& call);
  static void perform(void* data) noexcept;
  static void ask(State& state, const Call& call) noexcept;

  const StreamLibrary library_;
  const double time_scale_;
  StreamFollower follower_;
  std::array<StreamEvent, 2> reference_events_;
  std::size_t reference_ = 0;        // the newest
  Nanoseconds reference_asked_ = 0;  // when; 0: never
  bool first_note_ = true;           // of the step
  std::deque<Noted> noted_;
  std::unique_ptr<State, LetGo> state_;
  std::size_t next_ = 0;  // call
  Nanoseconds patience_ = 0;
  bool first_ = true;
};

}  // namespace flyball
