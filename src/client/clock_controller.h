// Sets a GPU's clock without making the caller wait (Perseus section 5, asynchronous frequency controller).
//
// The caller puts the clock that it wants into one atomic word; a control thread takes the newest and brings it to the
// device, which takes about 10 ms. Settings that were overtaken meanwhile never reach the device. A limit of the
// board's power goes the same way in a word of its own, since it changes when a plan begins or ends, and not with
// computations.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/units.h"
#include "client/age_histogram.h"

namespace flyball {

// The place where clocks are set: a lease of the agent, the device itself, or a test. Called by one thread at a time.
class ClockSink {
 public:
  virtual ~ClockSink() = default;
  ClockSink(const ClockSink&) = delete;
  ClockSink& operator=(const ClockSink&) = delete;

  // Holds the SM clock at `clock` until the next call. May block; throws Error. After an error, the next call starts
  // from the beginning (connects, takes a lease).
  virtual void hold(Megahertz clock) = 0;
  // Brings the clock back to its default.
  virtual void release() = 0;
  // Limits the board's power to `limit`, and brings back the limit that held before. As above.
  virtual void hold_limit(Watts limit) = 0;
  virtual void release_limit() = 0;
  // Returns why what was held last is no longer in force (the lease was lost); empty while it is. Called often; must
  // not block.
  [[nodiscard]] virtual std::string lost() const { return {}; }

 protected:
  ClockSink() = default;
};

// What a controller has done so far.
struct ClockControllerState {
  std::uint64_t calls = 0;      // of set() and release()
  std::uint64_t repeated = 0;   // calls that asked for the same as the call before, and were dropped
  std::uint64_t overtaken = 0;  // settings that a newer one replaced before they reached the device
  std::uint64_t applied = 0;    // settings that reached the device
  std::uint64_t failed = 0;     // attempts that the sink refused
  Megahertz requested;          // the newest setting; 0 for the default
  Megahertz held;               // the clock of the device; 0 for the default
  Watts limit;                  // that holds by this controller; 0 for what held before
  bool working = true;          // false from a refusal until the next success
  std::string failure;          // why the last attempt was refused
  AgeHistogram ages;            // times from a call to the sink's return
};

// Thread-safe. Where two threads ask at the same moment, one of the two clocks is the newest, and a call may be missing
// from the counts.
class ClockController {
 public:
  struct Options {
    // How often the control thread looks for a new setting while settings come, since waking it would cost the caller
    // microseconds. At the default, looking costs about 2 % of one core; a resting thread costs nothing.
    Seconds poll_period{0.0005};
    // When no new setting has come for this long, the control thread rests; the next caller wakes it (about 3 us).
    Seconds rest_after{1.0};
    // After a refusal the clock goes back to the default, and the newest setting is tried again after this time,
    // doubled with every further refusal up to the longest.
    Seconds first_retry{0.25};
    Seconds longest_retry{5.0};
    // How often the sink is asked whether a clock is still in force.
    Seconds check_period{0.1};
    // Called by the control thread when the sink begins to refuse (with the reason) and when it works again (empty).
    std::function<void(const std::string& failure)> on_change;
  };

  explicit ClockController(std::unique_ptr<ClockSink> sink) : ClockController(std::move(sink), Options{}) {}
  ClockController(std::unique_ptr<ClockSink> sink, Options options);
  // Brings the device back to its default. Waits for the call to the sink that is under way.
  ~ClockController();
  ClockController(const ClockController&) = delete;
  ClockController& operator=(const ClockController&) = delete;

  // Asks for a clock of whole MHz, above 0 and below 2^20. Costs tens of nanoseconds, never waits, never fails.
  void set(Megahertz clock) noexcept;
  void release() noexcept { set(Megahertz(0)); }
  // Asks for a clock at a moment to come (CLOCK_MONOTONIC), unless another call has been made by then. Costs as much.
  void set_at(Megahertz clock, Nanoseconds moment) noexcept;
  // Asks for a limit of the board's power, of whole milliwatts below 2^32; 0 W: for what held before. Costs as much.
  // Where the device refuses it, clocks go back to their default, too, until it takes both: a plan is for both.
  void set_limit(Watts limit) noexcept;

  // Returns since when (CLOCK_MONOTONIC) the device is held at `clock` (0: at its default); 0 where it is not. Costs
  // tens of nanoseconds.
  [[nodiscard]] Nanoseconds held_since(Megahertz clock) const noexcept;

  [[nodiscard]] ClockControllerState state() const;

 private:
  void run();
  [[nodiscard]] bool ask_when_due(std::uint64_t request, Nanoseconds now) noexcept;
  void pause(Nanoseconds now) const;
  void bring(std::uint64_t word);
  void bring_limit(std::uint64_t milliwatts);
  [[nodiscard]] bool is_brought(std::uint64_t word, std::uint64_t milliwatts) const;
  [[nodiscard]] std::string attempt(std::uint64_t word, std::uint64_t milliwatts);
  void release_all();
  void give_up(const std::string& failure);
  void tell_of(const std::string& failure) const;
  static void pause(Seconds time);
  void rest();
  void wake() noexcept;
  void order() const noexcept;

  // Packs a clock and the time at which it was asked for, or held, into one word: MHz in the lowest 20 bits, and
  // nanoseconds modulo 2^44 above.
  [[nodiscard]] static std::uint64_t pack(Megahertz clock, Nanoseconds time) noexcept;
  [[nodiscard]] static Megahertz clock_of(std::uint64_t word) noexcept;
  [[nodiscard]] static Nanoseconds age_of(std::uint64_t word, Nanoseconds now) noexcept;
  // How long it is until the word's time; 0 where that is over.
  [[nodiscard]] static Nanoseconds until(std::uint64_t word, Nanoseconds now) noexcept;

  const std::unique_ptr<ClockSink> sink_;
  const Options options_;

  // Members are grouped by the thread that writes them, a cache line each, since a call comes when other work has
  // emptied the caches. The caller's:
  static constexpr std::size_t kCacheLine = 64;
  alignas(kCacheLine) std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> repeated_{0};
  const bool barriers_by_system_;  // how requests and rests are ordered: see order()

  // Both threads look at these:
  alignas(kCacheLine) std::atomic<std::uint64_t> request_{0};  // written by the caller
  std::atomic<std::uint64_t> coming_{0};                       // a clock and when it is to be asked for; 0: none
  std::atomic<std::uint64_t> limit_request_{0};                // likewise, in mW
  std::atomic<bool> resting_{false};                           // by the control thread

  // The control thread's, except for stopping and waking it:
  alignas(kCacheLine) std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> brought_{0};  // the last request that reached the device
  std::atomic<std::uint64_t> limit_brought_{0};
  std::atomic<std::uint64_t> came_due_{0};  // clocks that were asked for at their moment
  std::atomic<bool> unsettled_{false};      // whether the sink is at work, or has refused
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> wakes_{0};
  Nanoseconds next_try_ = 0;
  Seconds retry_;

  mutable std::mutex mutex_;  // never held while the sink is called
  ClockControllerState state_;

  std::thread thread_;
};

}  // namespace flyball
