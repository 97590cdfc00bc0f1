// Any bytes as a footprint: finite energies in order under names of their own, which comparing and summarising can use
// and which are the same when written and read again; or an Error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>

#include "account/footprint_file.h"
#include "base/error.h"
#include "report/footprint_report.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const flyball::Footprint& footprint) {
  std::set<std::tuple<std::string_view, std::string_view, flyball::Phase>> names;
  double before = std::numeric_limits<double>::infinity();
  for (const flyball::FootprintRow& row : footprint.rows) {
    require(names.insert({row.name, row.device, row.phase}).second);
    require(std::isfinite(row.energy.value()) && row.energy.value() <= before && row.busy.value() >= 0.0);
    before = row.energy.value();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const flyball::Footprint footprint =
        flyball::read_footprint("fuzz.json", {reinterpret_cast<const char*>(data), size});
    check(footprint);
    const flyball::Footprint layers = flyball::summarised(footprint, flyball::SelfSimilar());
    check(layers);
    const flyball::FootprintComparison comparison = flyball::compare(footprint, layers);
    require(comparison.moves.size() <= comparison.names);
    const double similarity = flyball::similarity(footprint, footprint);
    require(std::isnan(similarity) || std::abs(similarity - 1.0) < 1e-6);
    // Sums of rows may be beyond what the reader takes; that is said.
    const std::string text = flyball::footprint_json(footprint, {});
    require(flyball::footprint_json(flyball::read_footprint("again.json", text), {}) == text);
  } catch (const flyball::Error&) {
  }
  return 0;
}
