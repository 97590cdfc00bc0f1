// Recorded power and recorded stages: the integrals of eqs. 23, 33 and 38, and component powers where nobody knows
// them.
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

// Energy of one device over time: (time, joules since its first row), both rising.
struct EnergyCurve {
  std::vector<Seconds> times;
  std::vector<Joules> joules;

  // Linear between rows (between two changes of a sensor energy runs as good as straight). Precondition: begin <= end,
  // both within [times.front(), times.back()].
  [[nodiscard]] Joules between(Seconds begin, Seconds end) const;
};

// A power trace. Times count from its first reading, since a double of Unix seconds holds no more than a quarter of a
// microsecond.
struct Recording {
  std::string source;            // the file, for messages
  double first_timestamp = 0.0;  // Unix time that times count from
  std::map<std::string, EnergyCurve> devices;

  // A device's stretch of constant power, after all of its others. What lies between is bridged at the same power: the
  // caller sees to it that this is little. Precondition: begin <= end, begin not before the stretch before.
  void add(const std::string& device, Seconds begin, Seconds end, Watts power);

  // Which component a device is: GPU:n accelerator, CPU:n processor, DRAM:n memory; nothing else is counted.
  [[nodiscard]] static const Component* component_of(std::string_view device);
  // When every counted device has been seen, and until when.
  [[nodiscard]] std::pair<Seconds, Seconds> common_span() const;
  [[nodiscard]] bool has(Component component) const;
  // Sum over the component's devices.
  [[nodiscard]] Joules between(Component component, Seconds begin, Seconds end) const;
};

// Of a file in any form that account reads (trace/power_trace.h). Throws InputError where readings are missing for more
// than one per cent of a device's time, or are of negative power.
[[nodiscard]] Recording read_recording(const std::string& file);

// When a stage ran: CSV `iteration,stage,begin,end` on the recording's clock (docs/formats/run.md).
struct StageSpan {
  long iteration = 0;  // of no meaning for stages that run once
  TrainingStage stage = TrainingStage::kForward;
  double begin = 0.0;  // timestamps, as in the recording
  double end = 0.0;
};
[[nodiscard]] std::vector<StageSpan> read_spans(const std::string& source, std::string_view text);

// Fills the stages of `type` that the spans name: their times, and the joules of each component that the recording
// holds. Spans of one stage in one iteration add up. Throws InputError for spans outside the recording, and for stages
// that were seen in different numbers of iterations.
void attach_recording(NodeType& type, const Recording& recording, const std::vector<StageSpan>& spans);

// Active and idle power of every component that the recording holds.
//
// With spans: active is the mean over the stages in which the component works, idle the mean over those in which it
// does not. Without: the two levels that split the time-weighted powers with the least variance inside each (Otsu's
// threshold, exact over all splits); a component with a single level gets it as both.
// Throws InputError when the recording holds no counted device, or too little of one.
[[nodiscard]] PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording);
[[nodiscard]] PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording,
                                                                    const std::vector<StageSpan>& spans,
                                                                    const NodeType& type);

// Mean power of all counted devices in steps of equal length over the common span, for pictures. At most `steps`.
[[nodiscard]] std::vector<std::pair<Seconds, Watts>> power_steps(const Recording& recording, std::size_t steps);

}  // namespace flyball
