// What a segment of a layer takes with each of its settings, as Kareus measures it (OSDI'26).
//
// A segment is a stretch of kernels, the attention of a forward for example, together with the communication that runs
// beside it. Its file has one JSON object per line: freq (MHz), time_s, energy_j, and the setting: the kernels between
// which the communication runs (overlap_start, overlap_end), its SMs (sm) and its block size (block). A setting is
// written as the four joined by '-', "norm_0-none-12-1024", as in Kareus's own profiles and plans; a segment without a
// choice, such as an embedding, leaves all four out.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace flyball {

struct SegmentOption {
  std::string setting;  // empty where the segment has no choice
  Seconds time;
  Joules energy;
};

struct Segment {
  std::string source;                                    // file path, for messages
  std::map<Megahertz, std::vector<SegmentOption>> at{};  // by clock, at least one; settings in the file's order

  // Whether its rows have settings; either all have or none.
  [[nodiscard]] bool has_settings() const { return !at.begin()->second.front().setting.empty(); }
};

// Reads a segment's rows. Rows of one clock and setting are repeated measurements, of which the mean counts. Other keys
// are ignored, as are blank lines. Throws InputError with line and column for what is no JSON, and with the line for
// keys that are missing or out of range (times and energies as in profiles), settings with characters that a CSV field
// cannot hold, and rows with and without settings in one file. Cost: O(rows log rows).
[[nodiscard]] Segment read_segment(const std::string& source, std::string_view text);
[[nodiscard]] Segment read_segment_file(const std::filesystem::path& path);

}  // namespace flyball
