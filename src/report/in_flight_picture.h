// What the picture of the microbatches in flight (in_flight_picture(), report.h) shows, and whether it is to be drawn.
#pragma once

#include <vector>

#include "report/report.h"

namespace flyball {

// Returns whether the picture can be drawn, and says something that the timeline does not: whether the stages' orders
// can be told (plan/stage_orders.h), and the plan's is another than the baseline's or has backwards in two parts.
[[nodiscard]] bool has_in_flight_picture(const ReportInput& input);

// When the number of microbatches that a stage holds changes, and what it then is. A microbatch is held from the begin
// of its forward to the end of its backward, of its weight gradient where that is an operation of its own.
struct HeldFrom {
  Nanoseconds time;
  int microbatches;
};

// Returns the changes of a stage in rising time, the last of which is to none.
[[nodiscard]] std::vector<HeldFrom> held_over_time(const ComputationDag& dag, const Timeline& timeline, int stage);

}  // namespace flyball
