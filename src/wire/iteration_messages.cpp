// The descriptions. Columns keep the answer short: an iteration may have tens of thousands of operations.
#include "wire/iteration_messages.h"

#include "base/record.h"

namespace flyball {
namespace {

constexpr const char* kServersAnswer = "the server's answer";

// Whoever shows an iteration need not look whether its numbers fit together.
void check_columns(const JsonObject& object, const MeasuredIteration& told) {
  const IterationOperations& all = told.operations;
  const std::size_t count = all.type.size();
  const auto refuse = [&] {
    object.refuse("operations", "does not fit together", "check that this is a Flyball server of the same version");
  };
  for (const std::size_t size : {all.microbatch.size(), all.chunk.size(), all.setting.size(), all.waits_for.size(),
                                 all.planned_begin.size(), all.planned_time.size(), all.measured_begin.size(),
                                 all.measured_time.size(), all.late.size(), all.added.size()}) {
    if (size != count) refuse();
  }
  const auto is_index = [](int index, std::size_t size) {
    return index >= 0 && static_cast<std::size_t>(index) < size;
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_index(all.type[i], told.types.size())) refuse();
    const IterationType& type = told.types[static_cast<std::size_t>(all.type[i])];
    if (!is_index(type.stage, told.clocks.size()) || !is_index(all.setting[i], type.settings.size())) refuse();
    for (const int before : all.waits_for[i]) {
      if (!is_index(before, i)) refuse();
    }
  }
}

}  // namespace

Record<IterationType::Setting> description_of(const IterationType::Setting* /*type*/) {
  using R = IterationType::Setting;
  return Record<R>::answer("IterationSetting", kServersAnswer,
                           "A way in which the plan runs an operation, with what it takes by the profile.")
      .field("clock_mhz", &R::clock, "The clock. 0: none is set for it.")
      .field("time_s", &R::time, "Time that it takes at this clock.")
      .field("energy_j", &R::energy, "Energy that it takes at this clock.")
      .field("power_w", &R::power, "Mean power meanwhile.");
}

Record<IterationType> description_of(const IterationType* /*type*/) {
  using R = IterationType;
  return Record<R>::answer("IterationType", kServersAnswer, "The operations of one instruction on one stage.")
      .field("instruction", &R::instruction, "Name of the instruction.")
      .field("letters", &R::letters, "Letters with which labels of its operations begin.")
      .field("is_forward", &R::is_forward, "Whether it is a forward.")
      .field("occupies_stage", &R::occupies_stage,
             "Whether the stage runs nothing else meanwhile, other than beside a transfer.")
      .field("stage", &R::stage, "Number of the stage.")
      .field("settings", &R::settings, "Those that the plan uses, highest clock first.");
}

Record<IterationOperations> description_of(const IterationOperations* /*type*/) {
  using R = IterationOperations;
  return Record<R>::answer("IterationOperations", kServersAnswer,
                           "Lists with an entry for each operation, which stands behind all that it waits for. Times "
                           "count from when the first computation began: by plan, and as measured. What nobody "
                           "measures, such as transfers, is null.")
      .field("type", &R::type, "Index into the list of types.")
      .field("microbatch", &R::microbatch, "Number of the microbatch. -1: of the whole iteration.")
      .field("chunk", &R::chunk, "Number of the model chunk.")
      .field("setting", &R::setting, "Planned setting: index into those of its type.")
      .field("waits_for", &R::waits_for, "The operations that must end before, also on the same stage.")
      .field("planned_begin_s", &R::planned_begin, "When it was to begin.")
      .field("planned_time_s", &R::planned_time, "Time that it was to take, late clock changes included.")
      .field("measured_begin_s", &R::measured_begin, "When it began.")
      .field("measured_time_s", &R::measured_time, "Time that it took.")
      .field("late_s", &R::late, "How much later than planned it ended; below 0: sooner.")
      .field("added_s", &R::added,
             "How much of late_s it added itself: it began later than planned after the last that it waits for had "
             "ended, or took longer. Below 0: it made up for others.");
}

Record<MeasuredIteration> description_of(const MeasuredIteration* /*type*/) {
  using R = MeasuredIteration;
  return Record<R>::answer("MeasuredIteration", kServersAnswer,
                           "The last iteration of the first pipeline that all of its stages have reported, beside what "
                           "was planned. The stages' wall clocks are aligned by the waits for each other.")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("missing", &R::missing, "Why there is no such iteration, for people. Empty if there is one.")
      .field("version", &R::version, "Version of the schedule by which it ran. 0: there is none.")
      .field("step", &R::step, "Number of the iteration, as the ranks count.")
      .field("measured_at_s", &R::measured_at, "When its last report came, in seconds since 1970.")
      .field("promised_time_s", &R::promised_time, "Iteration time that the schedule promises.")
      .field("planned_time_s", &R::planned_time,
             "Time from the first computation's begin to the last one's end by the plan.")
      .field("measured_time_s", &R::measured_time, "The same as measured.")
      .field("clock_changes", &R::clock_changes,
             "Clock changes of all stages by the plan, from the iteration's end to the next one's begin included.")
      .field("clocks", &R::clocks, "By stage, how its rank knows the measured times (StepReport).")
      .field("types", &R::types, "Kinds of operations.")
      .field("operations", &R::operations, "The operations.")
      .check([](const JsonObject& object, R& told) { check_columns(object, told); });
}

}  // namespace flyball
