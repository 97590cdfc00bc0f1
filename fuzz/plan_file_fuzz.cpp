// Any bytes as a plan file: plans that can be replayed, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "pipeline/timeline.h"
#include "plan/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const flyball::PlanFile file =
        flyball::read_plan_json("fuzz.json", std::string_view(reinterpret_cast<const char*>(data), size));
    if (file.frontier.empty()) std::abort();
    for (std::size_t k = 0; k < file.frontier.size(); ++k) {
      const flyball::ClockPlan plan = file.frontier.plan(k);
      if (plan.size() != static_cast<std::size_t>(file.dag.size())) std::abort();
      const flyball::Timeline timeline = flyball::emulate(file.dag, flyball::plan_durations(file.dag, plan));
      if (timeline.makespan < 0) std::abort();
    }
    if (flyball::write_plan_json(file.header, file.dag, file.blocking, file.frontier).empty()) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
