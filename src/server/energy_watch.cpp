// A pipeline counts where every stage has measured; the energies of a stage's ranks are averaged, so that a pipeline
// has one GPU per stage, as its plan does. Where iterations by plan take longer than those at maximum clocks did, since
// they wait for a straggler, maximum clocks would wait as well.
#include "server/energy_watch.h"

#include <algorithm>
#include <cmath>

namespace flyball {

void EnergyWatch::take(const PromiseReport& report, int pipeline, int stage, bool at_maximum) {
  const IterationEnergy& energy = report.energy;
  Measured& known = ranks_[{{pipeline, stage}, report.rank}];
  if (energy.at_maximum > Joules(0)) {
    known.energy.at_maximum = energy.at_maximum;
    known.energy.at_maximum_error = energy.at_maximum_error;
    known.at_maximum_time = at_maximum ? report.time : report.at_maximum;
    if (at_maximum) known.at_maximum_version = report.version;
  }
  if (at_maximum || report.slower) return;
  known.energy.planned = energy.planned;
  known.energy.planned_error = energy.planned_error;
  known.planned_time = report.time;
  known.planned_version = planned_version_ = report.version;
}

void EnergyWatch::add_pipeline(Sums& sums, Ranks::const_iterator begin, Ranks::const_iterator end, int stages,
                               std::int64_t at_maximum_version, const EnergyPromise& promised) const {
  if (!(promised.share > 0.0)) return;
  Sums all;
  int measured_stages = 0;
  double waiting_time = 0.0;
  for (auto rank = begin; rank != end;) {
    const int stage = rank->first.first.second;
    Sums of_stage;
    double count = 0.0;
    for (; rank != end && rank->first.first.second == stage; ++rank) {
      const Measured& known = rank->second;
      if (!(known.energy.planned > Joules(0)) || !(known.energy.at_maximum > Joules(0))) continue;
      if (known.planned_version != planned_version_) continue;
      if (at_maximum_version != 0 && known.at_maximum_version != at_maximum_version) continue;
      const auto square = [](Joules value) { return value.value() * value.value(); };
      of_stage.planned += known.energy.planned.value();
      of_stage.at_maximum += known.energy.at_maximum.value();
      of_stage.planned_variance += square(known.energy.planned_error);
      of_stage.at_maximum_variance += square(known.energy.at_maximum_error);
      waiting_time = std::max(waiting_time, (known.planned_time - known.at_maximum_time).value());
      ++count;
    }
    if (count == 0.0) return;
    ++measured_stages;
    all.planned += of_stage.planned / count;
    all.at_maximum += of_stage.at_maximum / count;
    all.planned_variance += of_stage.planned_variance / (count * count);
    all.at_maximum_variance += of_stage.at_maximum_variance / (count * count);
  }
  if (measured_stages < stages) return;
  all.at_maximum += (promised.waiting * Seconds(waiting_time)).value();
  sums.planned += all.planned;
  sums.at_maximum += all.at_maximum;
  sums.promised += promised.share * all.at_maximum;
  sums.planned_variance += all.planned_variance;
  sums.at_maximum_variance += all.at_maximum_variance;
}

std::optional<EnergyComparison> EnergyWatch::energy_of(const Sums& sums) {
  if (!(sums.at_maximum > 0.0)) return std::nullopt;
  EnergyComparison all;
  all.promised = sums.promised / sums.at_maximum;
  all.measured = sums.planned / sums.at_maximum;
  all.error =
      std::sqrt(sums.planned_variance + all.measured * all.measured * sums.at_maximum_variance) / sums.at_maximum;
  return all;
}

}  // namespace flyball
