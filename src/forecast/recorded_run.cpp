// Joins a run description with the recordings that it names, in the order in which one gives values to the other.
#include "forecast/recorded_run.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"

namespace flyball {

RecordedRun read_recorded_run(const std::string& file) {
  RecordedRun all{read_run(file, read_text_file(file)), {}};
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (std::size_t t = 0; t < all.run.node_types.size(); ++t) {
    NodeType& type = all.run.node_types[t];
    if (type.recording_file.empty()) continue;
    RecordedType recorded{t, read_recording((folder / type.recording_file).lexically_normal().string()), {}};
    if (!type.spans_file.empty()) {
      const std::string spans = (folder / type.spans_file).lexically_normal().string();
      recorded.spans = read_spans(spans, read_text_file(spans));
      attach_recording(type, recorded.recording, recorded.spans);
      const auto powers = calibrate(recorded.recording, recorded.spans, type);
      for (std::size_t c = 0; c < kComponents; ++c) {
        if (powers[c] && !type.components[c]) type.components[c] = powers[c];
      }
    }
    all.recordings.push_back(std::move(recorded));
  }
  return all;
}

void calibrate_type(RecordedRun& all, std::size_t type, const std::string& file) {
  Recording recording = read_recording(file);
  const PerComponent<std::optional<ComponentPower>> powers = calibrate(recording);
  NodeType& own = all.run.node_types[type];
  for (std::size_t c = 0; c < kComponents; ++c) {
    if (powers[c]) own.components[c] = powers[c];
  }
  set_usual_activity(own, own.has(Component::kAccelerator));
  const bool drawn = std::any_of(all.recordings.begin(), all.recordings.end(),
                                 [type](const RecordedType& recorded) { return recorded.type == type; });
  if (!drawn) all.recordings.push_back({type, std::move(recording), {}});
}

std::vector<std::pair<Seconds, Watts>> measured_power(const RecordedType& recorded,
                                                      const std::vector<PowerPiece>& pieces) {
  constexpr std::size_t kSteps = 1200;
  double first_span = recorded.recording.first_timestamp;
  Seconds first_piece(0);
  bool found = false;
  for (const StageSpan& span : recorded.spans) {
    if (usual_occurrence(span.stage) != Occurrence::kIteration) continue;
    if (!found || span.begin < first_span) first_span = span.begin;
    found = true;
  }
  for (const PowerPiece& piece : pieces) {
    if (!found || usual_occurrence(piece.stage) == Occurrence::kIteration) break;
    first_piece = piece.end;
  }
  const Seconds shift = first_piece - Seconds(first_span - recorded.recording.first_timestamp);
  std::vector<std::pair<Seconds, Watts>> steps;
  for (auto [time, power] : power_steps(recorded.recording, kSteps)) {
    if (time + shift >= Seconds(0)) steps.emplace_back(time + shift, power);
  }
  if (!steps.empty()) steps.emplace_back(recorded.recording.common_span().second + shift, Watts(0));
  return steps;
}

}  // namespace flyball
