// Recorded power and recorded stages. They give the integrals of eqs. 23, 33 and 38, and the powers of components where
// these are not known otherwise.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"

namespace flyball {

// The energy of one device over time: times, and the joules since the first of them. Both rise.
struct EnergyCurve {
  std::vector<Seconds> times;
  std::vector<Joules> joules;

  // Returns the energy between two times, interpolated linearly between rows, since between two changes of a sensor the
  // energy is practically linear. Requires begin <= end, both within [times.front(), times.back()].
  [[nodiscard]] Joules between(Seconds begin, Seconds end) const;
};

// A power trace of a node. Times count from its first reading, since a double resolves Unix time no finer than a
// quarter of a microsecond.
struct Recording {
  std::string source;            // the file, for error messages
  double first_timestamp = 0.0;  // the Unix time from which times count
  std::map<std::string, EnergyCurve> devices;

  // Adds a stretch of time in which a device drew constant power, after all its earlier ones. A gap before it is
  // bridged at the same power; the caller must see to it that gaps are small. Requires begin <= end, and that the
  // stretch does not begin before the last one ends.
  void add(const std::string& device, Seconds begin, Seconds end, Watts power);

  // Returns which component a device is: GPU:n accelerator, CPU:n processor, DRAM:n memory. Other devices are not
  // counted, for which it returns null.
  [[nodiscard]] static const Component* component_of(std::string_view device);
  // Returns the span of time over which all counted devices were recorded.
  [[nodiscard]] std::pair<Seconds, Seconds> common_span() const;
  [[nodiscard]] bool has(Component component) const;
  // Returns the energy of all devices of the component.
  [[nodiscard]] Joules between(Component component, Seconds begin, Seconds end) const;
};

// Reads a file in any form that `flyball account` reads (trace/power_trace.h). Throws InputError where readings are
// missing for more than one per cent of a device's time, or are of negative power.
[[nodiscard]] Recording read_recording(const std::string& file);

// When a stage ran. read_spans() reads such spans from CSV `iteration,stage,begin,end`, with times by the same wall
// clock as the recording (docs/formats/run.md), and throws InputError.
struct StageSpan {
  long iteration = 0;  // has no meaning for stages that run once
  TrainingStage stage = TrainingStage::kForward;
  double begin = 0.0;  // timestamps, as in the recording
  double end = 0.0;
};
[[nodiscard]] std::vector<StageSpan> read_spans(const std::string& source, std::string_view text);

// Fills in the stages of `type` that the spans name: their times, and the joules of each component that the recording
// holds. Spans of one stage in one iteration add up. Throws InputError for spans outside the recording, and for stages
// that were seen in different numbers of iterations.
void attach_recording(NodeType& type, const Recording& recording, const std::vector<StageSpan>& spans);

// Returns the active and idle power of every component that the recording holds.
//
// With spans, the active power is the mean over the stages in which the component works, and the idle power the mean
// over those in which it does not. Without spans, they are the means of the two levels that divide the time-weighted
// powers with the least variance within each level (Otsu's threshold, exact over all splits); where there is a single
// level, it is both. Throws InputError when the recording holds no counted device, or too little of one.
[[nodiscard]] PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording);
[[nodiscard]] PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording,
                                                                    const std::vector<StageSpan>& spans,
                                                                    const NodeType& type);

// Returns the mean power of all counted devices in at most `steps` steps of equal length over the common span, for
// pictures.
[[nodiscard]] std::vector<std::pair<Seconds, Watts>> power_steps(const Recording& recording, std::size_t steps);

}  // namespace flyball
