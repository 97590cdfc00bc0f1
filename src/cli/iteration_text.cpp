// A stage is busy while what it measures runs; transfers are left out of both sums.
#include "cli/iteration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/index.h"
#include "base/wall_clock.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr std::size_t kMostShown = 10;
constexpr Seconds kShownFrom{5e-6};  // less would be shown as nothing

std::string milliseconds(Seconds time) { return format_fixed(1e3 * time.value(), 2); }

std::string stages_text(const MeasuredIteration& iteration) {
  struct Busy {
    Seconds planned;
    Seconds measured;
    int operations = 0;
  };
  const IterationOperations& all = iteration.operations;
  std::vector<Busy> stages(iteration.clocks.size());
  for (std::size_t i = 0; i < all.type.size(); ++i) {
    if (!all.measured_time[i]) continue;
    Busy& busy = stages[at(iteration.types[at(all.type[i])].stage)];
    busy.planned += all.planned_time[i];
    busy.measured += *all.measured_time[i];
    ++busy.operations;
  }
  TextTable table({"stage", "operations", "planned busy ms", "measured busy ms", "longer %", "<times of"});
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Busy& busy = stages[stage];
    table.add_row({fmt::to_string(stage), fmt::to_string(busy.operations), milliseconds(busy.planned),
                   milliseconds(busy.measured), format_signed(100.0 * (busy.measured / busy.planned - 1.0), 2),
                   std::string(name_of(iteration.clocks[stage]))});
  }
  return table.str();
}

std::string late_text(const MeasuredIteration& iteration) {
  const IterationOperations& all = iteration.operations;
  std::vector<std::size_t> late;
  for (std::size_t i = 0; i < all.type.size(); ++i) {
    if (all.added[i] && *all.added[i] >= kShownFrom) late.push_back(i);
  }
  if (late.empty()) return "no operation added to being late\n";
  std::stable_sort(late.begin(), late.end(),
                   [&](std::size_t a, std::size_t b) { return *all.added[a] > *all.added[b]; });
  late.resize(std::min(late.size(), kMostShown));
  TextTable table(
      {"stage", "<operation", "microbatch", "clock MHz", "planned ms", "measured ms", "late ms", "added ms"});
  for (const std::size_t i : late) {
    const IterationType& type = iteration.types[at(all.type[i])];
    const Megahertz clock = type.settings[at(all.setting[i])].clock;
    table.add_row({fmt::to_string(type.stage), type.instruction, fmt::to_string(all.microbatch[i]),
                   clock > Megahertz(0) ? fmt::format("{:g}", clock.value()) : "-", milliseconds(all.planned_time[i]),
                   milliseconds(all.measured_time[i].value_or(Seconds())),
                   milliseconds(all.late[i].value_or(Seconds())), milliseconds(*all.added[i])});
  }
  return "later than planned by what they added themselves:\n" + table.str();
}

}  // namespace

std::string iteration_text(const MeasuredIteration& iteration) {
  if (!iteration.missing.empty()) return iteration.missing + "\n";
  const double age = now_seconds() - iteration.measured_at.value();
  return fmt::format("{}: step {} by schedule {}, measured {:.0f} s ago: {} ms, planned {} ms, promised {} ms\n",
                     iteration.job, iteration.step, iteration.version, std::max(0.0, age),
                     milliseconds(iteration.measured_time), milliseconds(iteration.planned_time),
                     milliseconds(iteration.promised_time)) +
         stages_text(iteration) + late_text(iteration);
}

}  // namespace flyball
