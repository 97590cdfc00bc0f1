// What a rank is to run. A computation has a codec of its own, since it is a list to be short.
#include <algorithm>
#include <array>
#include <string>

#include "base/record.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// ["forward", microbatch, chunk, clock in MHz], four numbers of transfers if there are any, and when to ask for the
// next clock if that is to be asked for ahead: this is short, since an iteration has hundreds of them, and thousands of
// ranks ask.
template <>
struct Codec<ScheduledComputation> {
  static ScheduledComputation read(const JsonValue& value, const FieldRules& /*rules*/) {
    const nlohmann::json& json = value.json();
    const auto whole = [&](std::size_t i) { return json[i].is_number_integer() ? json[i].get<int>() : -1; };
    const bool placed = json.is_array() && json.size() >= 8;
    const std::size_t ahead = placed ? 8 : 4;
    if (!json.is_array() || json.size() < 4 || !json[0].is_string() || whole(3) < 0 ||
        (placed && std::min({whole(4), whole(5), whole(6), whole(7)}) < 0)) {
      value.refuse("is no [instruction, microbatch, chunk, clock]",
                   "check that this is a Flyball server of the same version");
    }
    ScheduledComputation one{json[0].get<std::string>(), whole(1), whole(2), whole(3)};
    for (std::size_t i = 0; placed && i < one.transfers.size(); ++i) one.transfers[i] = whole(4 + i);
    if (json.size() > ahead) one.next_clock_after_us = whole(ahead);
    return one;
  }
  static Json write(const ScheduledComputation& one) {
    Json json = Json::array({one.instruction, one.microbatch, one.chunk, one.clock_mhz});
    for (const int count : one.transfers) {
      if (one.transfers != std::array<int, 4>{}) json.push_back(count);
    }
    if (one.next_clock_after_us >= 0) json.push_back(one.next_clock_after_us);
    return json;
  }
  static Json schema(const FieldRules& /*rules*/) {
    return {{"type", "array"}, {"minItems", 4}, {"items", {{"type", {"string", "integer"}}}}};
  }
};

Json to_json(const std::vector<ScheduledComputation>& computations) { return write_value(computations); }

Record<RankSchedule> description_of(const RankSchedule* /*type*/) {
  using R = RankSchedule;
  return Record<R>::answer("RankSchedule", "the server's answer")
      .field("job", &R::job, "The job's id.", {.needed = true})
      .field("rank", &R::rank, "Number of the rank that asked.", {.needed = true, .minimum = 0})
      .field("stage", &R::stage, "Number of the rank's stage.", {.needed = true, .minimum = 0})
      .field("version", &R::version, "Version of the schedule; it grows with every new schedule of the job.",
             {.needed = true, .minimum = 1})
      .field("point", &R::point, "Index of the frontier's point that the schedule runs.", {.needed = true})
      .field("iteration_time_s", &R::iteration_time, "Iteration time by the plan.", {.needed = true})
      .field("iteration_energy_j", &R::iteration_energy,
             "Energy of an iteration by the plan, for one pipeline with one GPU per stage.", {.needed = true})
      .field("straggler_power_w", &R::straggler_power,
             "Power of one pipeline with one GPU per stage while it waits, after its iteration, for a straggler.")
      .field("allowed_time_s", &R::allowed_time,
             "Time that an iteration may take: that of the straggler, if there is one.", {.needed = true})
      .field("max_clock_time_s", &R::max_clock_time,
             "Iteration time at maximum clocks in the same order, by the profile, and by the stragglers that were "
             "known when the ranks last measured it. 0: nothing is promised.")
      .field("at_maximum", &R::at_maximum,
             "Whether the rank is to run at default clocks for now, and to report what its iterations take.")
      .field("report_steps", &R::report_steps,
             "Whether ranks are to report the iterations that they run by this schedule.")
      .field("measured_every", &R::measured_every,
             "If above 0, the rank is to report each iteration by this schedule whose number is a multiple of this, "
             "and is not to wait for its GPU to measure it.",
             {.minimum = 0, .maximum = 1e9})
      .field(
          "limited", &R::limited,
          "Whether the plan keeps to limits on power: it promises the longer of allowed_time_s and iteration_time_s, "
          "and ranks keep its clocks even if iterations take longer.")
      .field("order", &R::order,
             "Number of the order in which the computations stand. 0: that of the schedule, as registered. Any other "
             "number is the same for all ranks and versions of one order; a rank runs this order in an iteration for "
             "which all ranks of its pipeline hold it, and the schedule's order in all others.")
      .field("remeasure", &R::remeasure, "What the rank is to correct and to measure again. Null: nothing.")
      .field(
          "computations", &R::computations,
          "The computations in the stage's order, each as [instruction, microbatch, chunk, clock in MHz]. A clock "
          "of 0 leaves the GPU's clock as it is. If transfers occupy both stages and the order is not 0, four numbers "
          "may follow, which are else 0: how many activations the stage sends and receives, and how many gradients it "
          "sends and receives, before this computation and after the one before. It posts them together. After its "
          "last computation a stage sends what is left. A last number, for jobs with clocks_ahead, says how many "
          "microseconds after the beginning of this computation the clock of the next one is to be asked for.");
}

}  // namespace flyball
