// Any bytes as one of the files beside RUN.toml, chosen by the first byte: recording, spans, carbon series, trace of
// PyTorch's profiler.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "forecast/bill.h"
#include "forecast/pytorch_steps.h"
#include "forecast/recording.h"
#include "trace/power_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0: {
        flyball::DeviceTable devices;
        const auto trace = flyball::open_power_text("power.csv", text, {}, devices);
        flyball::Recording recording;
        flyball::PowerSegment segment;
        while (trace->next(segment)) {
          recording.add(devices.name(segment.device), flyball::to_seconds(segment.begin - trace->stats().first),
                        flyball::to_seconds(segment.end - trace->stats().first), segment.power);
        }
        for (const auto& power : flyball::calibrate(recording)) {
          if (power && power->idle > power->active) std::abort();
        }
        if (flyball::power_steps(recording, 10).size() > 10) std::abort();
        break;
      }
      case 1: (void)flyball::read_spans("spans.csv", text); break;
      case 2: {
        const flyball::PerKwhSeries series = flyball::read_carbon("carbon.csv", text);
        const double mean = flyball::mean_per_kwh(series, flyball::Seconds(10), flyball::Seconds(1e5));
        if (!std::isfinite(mean)) std::abort();
        if (!std::isfinite(flyball::best_start(series, flyball::Seconds(1e5)).value())) std::abort();
        (void)flyball::read_prices("prices.csv", text);
        break;
      }
      default: {
        flyball::ByteSource bytes("trace.json", text);
        const flyball::TracedSteps traced = flyball::read_pytorch_steps(bytes);
        if (traced.steps == 0) std::abort();
      }
    }
  } catch (const flyball::Error&) {
  }
  return 0;
}
