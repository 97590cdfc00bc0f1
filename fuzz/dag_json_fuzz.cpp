// Any bytes as an explicit DAG: one whose operations can be run in order, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/timeline.h"
#include "profile/profile.h"

namespace {

constexpr std::string_view kProfile =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.01,3\n0,backward,1410,0.02,6\n0,p2p,0,0.001,0.1\n"
    "1,forward,1410,0.01,3\n1,backward,1410,0.02,6\n1,p2p,0,0.001,0.1\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const flyball::Profile profile = flyball::read_profile("profile.csv", kProfile);
  try {
    const flyball::ComputationDag dag =
        flyball::read_dag("fuzz.json", std::string_view(reinterpret_cast<const char*>(data), size), profile);
    const flyball::ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
    const flyball::Timeline timeline = flyball::emulate(dag, flyball::plan_durations(dag, plan));
    if (timeline.makespan <= 0 || flyball::critical_path(dag, timeline).empty()) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
