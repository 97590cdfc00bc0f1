// Makes the timelines of a page: the plans as data, which the page's scripts draw.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "draw/html_page.h"
#include "draw/svg_canvas.h"
#include "plan/plan_set.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

// A page has room for so many characters of plans, packed, and its reader for so many operations of all plans together.
constexpr std::size_t kMostPacked = 185'000;
constexpr std::size_t kMostPlanned = 1'400'000;
constexpr std::size_t kFewestPlanned = 10'000;

std::string base64(const std::string& bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // with the zero that ends it
  const int size =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

// In zlib's format (RFC 1950), which browsers unpack, in base64.
std::string packed(const std::string& text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                               static_cast<uLong>(text.size()), Z_BEST_COMPRESSION);
  if (result != Z_OK) throw SystemError(fmt::format("zlib cannot pack a report's plans (error {})", result));
  out.resize(size);
  return base64(out);
}

// As many plans as the page has room for. What repeats itself takes little room, so that their number is not known
// before they are packed.
std::string packed(const PlanSet& set) {
  std::size_t most = kMostPlanned;
  for (;;) {
    std::string text = packed(plan_set_json(set, most));
    if (text.size() <= kMostPacked || most <= kFewestPlanned) return text;
    most = std::min(most / 10 * 9, most * kMostPacked / text.size());
  }
}

PlanSetIteration iteration_of(const RealisedPlan& plan) {
  return {
      plan.name,     plan.energy.computation + plan.energy.blocking, plan.energy.straggler_wait, plan.dag, &plan.plan,
      plan.durations};
}

}  // namespace

std::string timeline_view(const ReportInput& input) {
  PlanSet set;
  set.blocking = input.problem->blocking;
  if (input.t_straggler) set.straggler_time = to_nanoseconds(*input.t_straggler);
  set.iterations = {iteration_of(input.baseline), iteration_of(input.chosen)};
  for (const PlannerCurve& curve : input.planners) {
    if (curve.frontier == nullptr || curve.frontier->empty()) continue;
    set.curves.push_back({curve.name, curve.dag, curve.frontier, curve.selected});
  }
  return fmt::format(
      "<plan-timeline data-waiting=\"{}\">\n<div class=\"shown\"><p class=\"note\">The timelines need JavaScript "
      "and a browser of 2023 or later; the picture timeline.svg does not.</p></div>\n<script "
      "type=\"text/plain\">{}</script>\n</plan-timeline>\n",
      escape_markup(blocking_label(*input.problem)), packed(set));
}

}  // namespace flyball
