// Finds how far the clocks of an event trace and a power trace are apart, since a device draws more while it works.
//
// Per device, the share of time in which anything ran and the mean power are laid into equal bins (where power is not
// known, its mean over all); the offset is where their correlation (Pearson, over the bins that both cover) is largest,
// summed over the devices by their overlap. By fast Fourier transform: O(n log n) for n bins, of which there are at
// most 2^18 however long the traces.
//
// A sensor that averages or is late adds an offset of its own (about half its window); the estimate includes it, as
// attribution needs. A program that repeats itself correlates at every whole iteration: then the best offset is taken,
// the smallest if several are equal to a thousandth, and the verdict is not certain. Where the traces do not overlap as
// they are, offsets that fit as well within 5 % but make less of the traces overlap come last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

struct ClockOffsetOptions {
  // How far to search to either side where the traces overlap as they are. Where they do not, the clocks are different
  // ones, and every offset is tried at which at least half of the shorter trace overlaps the other.
  Seconds reach{30.0};
  Seconds bin{0.0};  // 0: chosen from the traces
};

enum class OffsetVerdict : std::uint8_t {
  kCertain,  // use it
  // Another offset fits as well within 5 %, or traces that have nothing to do with each other might fit so well by
  // chance: check with the times of a known event, or give the offset.
  kAmbiguous,
  kWeak,    // power hardly follows the events (correlation below 0.3): do not use it
  kNoData,  // no device is in both traces, or its work or power never changes: nothing can be found
};
template <>
inline constexpr auto kNamesOf<OffsetVerdict> = name_list("certain", "ambiguous", "weak", "no-data");

struct ClockOffset {
  OffsetVerdict verdict = OffsetVerdict::kNoData;
  Nanoseconds offset = 0;    // to be added to the events' times
  Seconds resolution;        // the bin; the estimate is good to about a fifth of it where correlation is high
  double correlation = 0.0;  // at the offset, in [-1, 1]
  double runner_up = 0.0;    // the correlation of the best offset away from it
  Seconds runner_up_offset;
  double correlation_unshifted = 0.0;  // with the clocks as they are; 0 where they do not overlap
  std::vector<DeviceId> devices;       // devices that it is found from
};

// Reads both sources to the end.
[[nodiscard]] ClockOffset estimate_clock_offset(EventSource& events, PowerSource& power,
                                                const ClockOffsetOptions& options = {});

}  // namespace flyball
