// Any bytes as a profile: a profile that can be used and written back, or an Error. Nothing else may leave the reader.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "profile/cost_curve.h"
#include "profile/profile.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const flyball::Profile& profile) {
  require(profile.stages > 0 && !profile.operations.empty());
  for (const flyball::OperationProfile& operation : profile.operations) {
    require(!operation.options.empty() && profile.find(operation.stage, operation.instruction) == &operation);
    for (const flyball::Watts blocking : {flyball::Watts(0), flyball::Watts(75)}) {
      const auto pareto = flyball::pareto_options(operation.options, blocking);
      const flyball::CostCurve hull = flyball::hull_curve(pareto, blocking);
      require(!hull.empty() && hull.size() <= pareto.size());
      for (const flyball::CurveVertex& vertex : hull) require(vertex.time > 0 && std::isfinite(vertex.net_joules));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  flyball::Profile profile;
  try {
    profile = flyball::read_profile("fuzz.csv", text);
  } catch (const flyball::Error&) {
    return 0;
  }
  use(profile);
  const flyball::Profile again = flyball::read_profile("again.csv", flyball::write_profile(profile, {"again"}));
  require(again.stages == profile.stages && again.operations.size() == profile.operations.size());
  return 0;
}
