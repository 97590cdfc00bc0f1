// Any bytes as a power budget: periods of some length with a power above zero, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "plan/power_budget.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto periods =
        flyball::read_power_budget("fuzz.csv", std::string_view(reinterpret_cast<const char*>(data), size));
    if (periods.empty()) std::abort();
    for (const flyball::BudgetPeriod& period : periods) {
      if (!(period.length > flyball::Seconds(0)) || !(period.power > flyball::Watts(0))) std::abort();
      if (period.from.empty() || period.until.empty()) std::abort();
    }
  } catch (const flyball::Error&) {
  }
  return 0;
}
