// Any bytes as a job trace, in each format: a trace that can be written and read back, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "cluster/job_trace.h"
#include "cluster/measurements.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const flyball::JobTrace& trace) {
  require(!trace.jobs.empty());
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    require(trace.jobs[i].gpus >= 1 && trace.jobs[i].duration.value() > 0.0);
    require(i == 0 || trace.jobs[i - 1].submit <= trace.jobs[i].submit);
  }
  const std::string text = write_job_trace(trace, {"again"});
  require(write_job_trace(flyball::read_job_trace("again.csv", text), {"again"}) == text);
}

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const flyball::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flyball;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] { use(read_job_trace("fuzz.csv", text)); });
  for (const TraceFormat format : {TraceFormat::kPhilly, TraceFormat::kAlibaba, TraceFormat::kPollux}) {
    attempt([&] { use(convert_job_trace(format, "fuzz", text)); });
  }
  attempt([&] {
    const MeasurementSet measured = read_measurements("fuzz.csv", text, Megahertz(1000.0));
    require(!measured.empty());
    for (const auto& [model, rows] : measured) {
      for (const JobMeasurement& row : rows) {
        require(row.cost.time.value() > 0.0 && row.configuration.nodes <= row.configuration.gpus);
      }
    }
  });
  return 0;
}
