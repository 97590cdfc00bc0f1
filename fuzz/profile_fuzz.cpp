// Any bytes as a profile: a profile that can be used and written back, or an Error. Nothing else may leave the reader.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
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
  const auto is_column = [&](const std::string& name) {
    return std::find(profile.label_columns.begin(), profile.label_columns.end(), name) != profile.label_columns.end();
  };
  for (const flyball::OperationProfile& operation : profile.operations) {
    require(!operation.options.empty() && profile.find(operation.stage, operation.instruction) == &operation);
    for (std::size_t k = 0; k < operation.options.size(); ++k) {
      for (const flyball::Label& label : operation.labels.of(k)) require(is_column(label.name) && !label.value.empty());
      if (k == 0) continue;
      const flyball::Megahertz above = operation.options[k - 1].frequency;
      const flyball::Megahertz here = operation.options[k].frequency;
      require(here < above || (here == above && !operation.labels.alike(k - 1, k)));
    }
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
  require(again.label_columns == profile.label_columns);
  for (std::size_t k = 0; k < profile.operations.size(); ++k) {
    require(again.operations[k].options.size() == profile.operations[k].options.size());
  }
  return 0;
}
