// Any bytes as a message to the planning server: a value that survives being written and read again, or an Error.
#include <cstddef>
#include <cstdint>

#include "base/record.h"
#include "round_trip.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"
#include "wire/what_if_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flyball::round_trip_all(
      data, size, flyball::read_message<flyball::JobRequest>, flyball::read_message<flyball::RankRequest>,
      flyball::read_message<flyball::MeasurementReport>, flyball::read_message<flyball::StragglerNotice>,
      flyball::read_message<flyball::StepReport>, flyball::read_message<flyball::WhatIfRequest>,
      flyball::read_message<flyball::JobStatus>, flyball::read_message<flyball::FrontierReport>,
      flyball::read_message<flyball::JobList>, flyball::read_message<flyball::RankSchedule>);
}
