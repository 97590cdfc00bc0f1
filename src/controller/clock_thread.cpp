// A turn is an adjustment.
#include "controller/clock_thread.h"

#include <algorithm>
#include <utility>

namespace flyball {
namespace {

constexpr Seconds kWhileSettling{0.05};

}  // namespace

ClockThread::ClockThread(Controller& controller, Seconds period, std::function<Seconds()> now)
    : thread_("the clocks' thread", period, [&controller, period, now = std::move(now)] {
        const bool is_settling = controller.adjust(now());
        return is_settling ? std::min(kWhileSettling, period) : period;
      }) {
  controller.on_order([this] { thread_.wake(); });
}

}  // namespace flyball
