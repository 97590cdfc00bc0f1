// Any bytes as a message to the planning server: a value that survives being written and read again, or an Error.
#include <cstddef>
#include <cstdint>

#include "round_trip.h"
#include "wire/job_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return flyball::round_trip_all(data, size, flyball::read_job_request, flyball::read_rank_request,
                                 flyball::read_measurement_report, flyball::read_straggler_notice,
                                 flyball::read_step_report, flyball::read_rank_schedule);
}
