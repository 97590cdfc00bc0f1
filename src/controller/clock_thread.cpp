// A turn is an adjustment.
#include "controller/clock_thread.h"

#include <algorithm>

#include "base/wall_clock.h"

namespace flyball {
namespace {

constexpr Seconds kWhileSettling{0.05};

}  // namespace

ClockThread::ClockThread(Controller& controller, Seconds period)
    : thread_("the clocks' thread", period, [&controller, period] {
        const bool is_settling = controller.adjust(Seconds(now_seconds()));
        return is_settling ? std::min(kWhileSettling, period) : period;
      }) {
  controller.on_order([this] { thread_.wake(); });
}

}  // namespace flyball
