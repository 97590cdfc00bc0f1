// Any bytes as a pipeline file: a specification whose DAG can be built, or an Error, whatever its numbers ask for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "pipeline/pipeline_spec.h"
#include "profile/profile.h"

namespace {

constexpr std::string_view kProfile =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.01,3\n0,backward,1410,0.02,6\n0,recompute,1410,0.01,3\n"
    "0,backward_input,1410,0.01,3\n0,backward_weight,1410,0.01,3\n"
    "1,forward,1410,0.01,3\n1,backward,1410,0.02,6\n1,recompute,1410,0.01,3\n"
    "1,backward_input,1410,0.01,3\n1,backward_weight,1410,0.01,3\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const flyball::Profile profile = flyball::read_profile("profile.csv", kProfile);
  try {
    flyball::PipelineSpec spec =
        flyball::read_pipeline("fuzz.toml", std::string_view(reinterpret_cast<const char*>(data), size));
    spec.dag_file.clear();  // reads no files
    // Large iterations are allowed but would make the fuzzer slow; larger ones than allowed must be refused at once.
    const auto allowed = static_cast<double>(flyball::kMostOperations);
    const double stages = spec.stages > 0 ? spec.stages : profile.stages;
    const double operations = stages * 3.0 * spec.microbatches * spec.chunks;
    if (operations > 5000.0 && operations <= allowed) return 0;
    const flyball::ComputationDag dag = flyball::build_dag(spec, profile);
    if (operations > allowed || dag.size() == 0) std::abort();
  } catch (const flyball::Error&) {
  }
  return 0;
}
