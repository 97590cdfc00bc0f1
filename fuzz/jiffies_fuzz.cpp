// Any bytes as a jiffies trace: shares that divide all energy, or an Error. Nothing else may leave the reader.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "account/processor_share.h"
#include "base/error.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  flyball::JiffiesTrace trace;
  try {
    trace = flyball::read_jiffies("fuzz.csv", text);
  } catch (const flyball::Error&) {
    return 0;
  }
  if (trace.samples.size() > 100) trace.samples.resize(100);  // each interval has all sockets
  for (const flyball::ShareInterval& interval : flyball::processor_shares(trace)) {
    require(interval.begin < interval.end);
    for (const flyball::ProcessorShares& shares : interval.sockets) {
      for (const double share : {shares.program, shares.other, shares.system, shares.monitor}) {
        require(share >= 0.0 && share <= 1.0 + 1e-9);
      }
      require(std::abs(shares.program + shares.other + shares.system + shares.monitor - 1.0) < 1e-9);
    }
  }
  return 0;
}
