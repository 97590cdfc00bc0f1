// Composes profiles. A sum remembers the sum it was made of and the setting that was added, so that settings are
// spelled out only for what is left in the end.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"
#include "profile/composition.h"
#include "profile/cost_curve.h"

namespace flyball {
namespace {

constexpr std::size_t kMostSums = 1u << 22;  // at once, of one addition

struct Step {
  std::uint32_t before = 0;   // the sum of the segments before, by its index
  std::uint32_t setting = 0;  // of the segment that was added
};

// The sums of one clock after an addition.
struct Sums {
  std::vector<ClockOption> values;
  std::vector<Step> steps;
};

// The segments of an operation on one stage.
struct Used {
  const SegmentUse* use;
  const Segment* segment;
  double times;  // in the whole operation
};

// Segments with the same labels in the same order; a label of several operations stands in one place of them all.
std::vector<std::string> label_columns_of(const Composition& composition) {
  std::vector<std::string> columns;
  for (const ComposedOperation& operation : composition.operations) {
    auto place = columns.end();  // in front of the next label that is known
    for (auto use = operation.uses.rbegin(); use != operation.uses.rend(); ++use) {
      if (use->label.empty()) continue;
      const auto known = std::find(columns.begin(), columns.end(), use->label);
      place = known != columns.end() ? known : columns.insert(place, use->label);
    }
  }
  for (const ComposedOperation& operation : composition.operations) {
    auto place = columns.begin();
    for (const SegmentUse& use : operation.uses) {
      if (use.label.empty()) continue;
      place = std::find(place, columns.end(), use.label);
      if (place != columns.end()) continue;
      throw InputError({composition.source},
                       fmt::format("the labels of '{}' stand in another order than those of other operations",
                                   operation.instruction),
                       "list the segments of all operations in one order: it becomes that of the profile's columns");
    }
  }
  return columns;
}

class Composer {
 public:
  Composer(const Composition& composition, const ComposeTerms& terms) : composition_(composition), terms_(terms) {}

  ComposedProfile compose() {
    for (std::size_t stage = 0; stage < composition_.layers.size(); ++stage) {
      for (const ComposedOperation& operation : composition_.operations) add(static_cast<int>(stage), operation);
    }
    if (rows_.empty()) throw InputError({composition_.source}, "no stage has a segment", "name stages that there are");
    ComposedProfile composed{profile_of_rows(composition_.source, rows_), std::move(figures_)};
    composed.profile.label_columns = label_columns_of(composition_);
    return composed;
  }

 private:
  void add(int stage, const ComposedOperation& operation) {
    std::vector<Used> used;
    for (const SegmentUse& use : operation.uses) {
      const bool here =
          use.stages.empty() || std::find(use.stages.begin(), use.stages.end(), stage) != use.stages.end();
      const int layers = composition_.layers[static_cast<std::size_t>(stage)];
      if (here) used.push_back({&use, &composition_.segments[use.segment], use.times * (use.per_layer ? layers : 1)});
    }
    if (used.empty()) return;
    ComposedFigures figures{stage, operation.instruction};
    for (const auto& [clock, unused] : used.front().segment->at) {
      if (measured_at(used, clock)) add_clock(operation, used, clock, figures);
    }
    if (figures.clocks == 0) {
      throw InputError({composition_.source},
                       fmt::format("the segments of stage {} {} have no clock in common", stage, operation.instruction),
                       "measure all segments at the same clocks");
    }
    if (figures.options > kMostOptions) {
      throw InputError({composition_.source},
                       fmt::format("stage {} {} has {} options, a profile holds {}", stage, operation.instruction,
                                   figures.options, kMostOptions),
                       "leave out what is hardly better (--tolerance 0.5)");
    }
    figures_.push_back(std::move(figures));
  }

  static bool measured_at(const std::vector<Used>& used, Megahertz clock) {
    return std::all_of(used.begin(), used.end(), [&](const Used& one) { return one.segment->at.contains(clock); });
  }

  void add_clock(const ComposedOperation& operation, const std::vector<Used>& used, Megahertz clock,
                 ComposedFigures& figures) {
    std::vector<Sums> additions;
    double combinations = 1.0;
    for (const Used& one : used) {
      const std::vector<SegmentOption>& settings = one.segment->at.at(clock);
      combinations *= static_cast<double>(settings.size());
      additions.push_back(filtered(sums_of(additions.empty() ? nullptr : &additions.back(), one, settings, clock),
                                   tolerance_of(additions.size() + 1, used.size())));
    }
    ++figures.clocks;
    figures.combinations += combinations;
    figures.options += additions.back().values.size();
    for (std::size_t k = 0; k < additions.back().values.size(); ++k) {
      ProfileRow row{figures.stage, operation.instruction, 0, additions.back().values[k]};
      std::size_t sum = k;
      for (std::size_t u = used.size(); u-- > 0;) {
        const Step step = additions[u].steps[sum];
        const std::string& setting = used[u].segment->at.at(clock)[step.setting].setting;
        if (!setting.empty()) row.labels.push_back({used[u].use->label, setting});
        sum = step.before;
      }
      std::reverse(row.labels.begin(), row.labels.end());
      rows_.push_back(std::move(row));
    }
  }

  // What is given away adds up over the additions. The last one decides how many options there are, and may give away
  // as much as all others.
  double tolerance_of(std::size_t addition, std::size_t additions) const {
    if (additions == 1) return terms_.tolerance;
    if (addition == additions) return 0.5 * terms_.tolerance;
    return 0.5 * terms_.tolerance / static_cast<double>(additions - 1);
  }

  // All sums of one before, or of nothing, and a setting of the segment.
  Sums sums_of(const Sums* before, const Used& added, const std::vector<SegmentOption>& settings,
               Megahertz clock) const {
    static const std::vector<ClockOption> kNothing(1);
    const std::vector<ClockOption>& base = before == nullptr ? kNothing : before->values;
    if (base.size() > kMostSums / settings.size()) {
      throw InputError({added.segment->source},
                       fmt::format("{} settings at {} MHz make too many sums with {} of the segments before",
                                   settings.size(), clock.value(), base.size()),
                       "leave out what is hardly better (--tolerance 0.5)");
    }
    Sums sums;
    sums.values.reserve(base.size() * settings.size());
    sums.steps.reserve(base.size() * settings.size());
    for (std::size_t b = 0; b < base.size(); ++b) {
      for (std::size_t s = 0; s < settings.size(); ++s) {
        sums.values.push_back(
            {clock, base[b].time + added.times * settings[s].time, base[b].energy + added.times * settings[s].energy});
        sums.steps.push_back({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(s)});
      }
    }
    return sums;
  }

  Sums filtered(const Sums& all, double tolerance) const {
    Sums kept;
    for (const std::size_t k : pareto_indices(all.values, terms_.blocking, tolerance)) {
      kept.values.push_back(all.values[k]);
      kept.steps.push_back(all.steps[k]);
    }
    return kept;
  }

  const Composition& composition_;
  const ComposeTerms& terms_;
  std::vector<ProfileRow> rows_;
  std::vector<ComposedFigures> figures_;
};

}  // namespace

ComposedProfile compose_profile(const Composition& composition, const ComposeTerms& terms) {
  return Composer(composition, terms).compose();
}

}  // namespace flyball
