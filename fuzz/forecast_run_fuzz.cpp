// Any bytes as RUN.toml: forecasts of finite energy, of the run and of one with other nodes, or an Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "forecast/forecast.h"
#include "forecast/run_change.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const flyball::RunDescription run =
        flyball::read_run("RUN.toml", std::string_view(reinterpret_cast<const char*>(data), size));
    flyball::check_complete(run);
    const flyball::RunForecast forecast = flyball::forecast_run(run);
    if (!std::isfinite(forecast.energy.value()) || forecast.energy < flyball::Joules(0)) std::abort();
    for (std::size_t t = 0; t < run.node_types.size(); ++t) {
      if (flyball::power_over_time(run, forecast, t, 50).size() > 50) std::abort();
    }
    flyball::RunChange question;
    question.counts.assign(run.node_types.size(), 3);
    const flyball::ChangedRun changed = flyball::change_run(run, question, 0.9);
    if (!std::isfinite(changed.forecast.interval.high.value())) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
