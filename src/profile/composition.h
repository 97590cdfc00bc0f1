// How segments of a layer make up the operations of a pipeline: the composition file, and the profile that follows.
//
// Problem. A microbatch's forward is the same few segments over and over, each with a choice of settings. Its options
// are the combinations of the segments' choices, one setting per segment for all layers, at one clock. There are as
// many as the product of the segments' numbers of settings, of which hardly any is worth having.
//
// Idea. Times and energies of a combination are sums. What of two combinations of the first segments is beaten by the
// other stays so whatever is added to both. So the segments are added one after another, and after each addition only
// the sums are kept that no other beats (a Minkowski sum with a Pareto filter), at each clock by itself. Energies are
// compared net of blocking, as planners do (cost_curve.h); what is beaten at one blocking power is beaten at each lower
// one, so that nothing is lost to plans that assume less than `blocking`.
//
// Cost: for each stage, instruction, clock and segment O(n log n), n = kept sums times settings of the segment.
// Source: Kareus (OSDI'26), whose composition for few segments is the product, filtered once at the end.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/profile.h"
#include "profile/segment.h"

namespace flyball {

// A segment within an operation.
struct SegmentUse {
  std::string label;        // the profile's column for its setting; empty where it has no choice
  std::size_t segment = 0;  // index into Composition::segments
  double times = 1.0;       // how often it runs in a layer, or in the whole operation
  bool per_layer = true;
  std::vector<int> stages{};  // empty: all
};

struct ComposedOperation {
  std::string instruction;
  std::vector<SegmentUse> uses;  // at least one
};

struct Composition {
  std::string source;                         // file path, for messages
  std::vector<int> layers;                    // of each stage
  std::vector<ComposedOperation> operations;  // at least one
  std::vector<Segment> segments;              // each file once
};

// Reads a composition file (docs/formats/composition.md). `load` reads a segment by the path that the file states.
// Throws InputError with the place: keys that are unknown, missing or out of range, a label for a segment without
// settings or none for one that has some, an operation that stands twice, labels of two operations in different order.
[[nodiscard]] Composition read_composition(const std::string& source, std::string_view text,
                                           const std::function<Segment(const std::string&)>& load);
// Paths of segments are relative to the file's folder.
[[nodiscard]] Composition read_composition_file(const std::filesystem::path& path);

struct ComposeTerms {
  Watts blocking{75.0};  // the most that plans will assume
  // By how much of its gross energy a sum that is left out may be cheaper than one that is kept and no slower.
  double tolerance = 0.0;
};

// What became of one operation of one stage.
struct ComposedFigures {
  int stage = 0;
  std::string instruction;
  std::size_t clocks = 0;
  double combinations = 0.0;  // of settings, at all clocks
  std::size_t options = 0;    // kept
};

struct ComposedProfile {
  Profile profile;
  std::vector<ComposedFigures> figures;  // by stage, then as in the composition
};

// Returns the profile of the composed operations, with the clocks at which all segments of an operation were measured.
// Deterministic. Throws InputError where the segments of an operation have no clock in common, where sums are out of a
// profile's range, and where more options are left than a profile may have.
[[nodiscard]] ComposedProfile compose_profile(const Composition& composition, const ComposeTerms& terms);

}  // namespace flyball
