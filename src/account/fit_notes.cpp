// Sentences on fits, in the order in which a reader needs them: what was fitted, how well, and what follows.
#include "account/fit_notes.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "account/attribution_method.h"
#include "base/counted.h"

namespace flyball {
namespace {

std::string fit_text(const RegressionFit& fit) {
  const std::string fitted = fmt::format("{} fitted to {}", counted(static_cast<long>(fit.unknowns), "power"),
                                         counted(static_cast<long>(fit.readings), "reading"));
  if (fit.deviation <= Watts(0)) return fitted + " that do not vary, which tell nothing of single operations";
  const std::string varied = fmt::format("{} with a standard deviation of {:.3g} W", fitted, fit.deviation.value());
  if (!fit.explained) return varied + "; too few to judge the fit";
  return fmt::format("{}; powers fitted to one half explain {:.1f} % of the variance in the other", varied,
                     100.0 * *fit.explained);
}

}  // namespace

void note_fits(const std::vector<RegressionFit>& fits, const DeviceTable& devices, AccountMethod method,
               std::string_view option, FootprintNotes& notes) {
  for (const RegressionFit& fit : fits) {
    const std::string& device = devices.name(fit.device);
    if (fit.readings == 0) {
      notes.push_back(fmt::format("{}: no reading to fit, shared by the sweep", device));
      continue;
    }
    const std::string_view kept = fit.method == AccountMethod::kSweep ? "; the sweep was kept" : "";
    notes.push_back(fmt::format("{}: {}{}", device, fit_text(fit), kept));
    if (fit.moved != Seconds(0)) {
      notes.push_back(fmt::format("{}: readings come {:.3g} ms {} by the fit, and were moved by so much", device,
                                  std::abs(1e3 * fit.moved.value()), fit.moved > Seconds(0) ? "late" : "early"));
    }
    if (fit.smoothing > Seconds(0)) {
      notes.push_back(fmt::format("{}: the counter follows the power with a time constant of {:.3g} ms by the fit",
                                  device, 1e3 * fit.smoothing.value()));
    }
    if (fit.straightened) {
      notes.push_back(fmt::format(
          "{}: stamps are late by lot, since the counter changes in even steps by the fit; they were put there",
          device));
    }
    if (fit.adds && fit.method != AccountMethod::kSweep) {
      notes.push_back(
          fmt::format("{}: operations that run at once add their powers by the fit, and do not share one", device));
    }
    if (method != AccountMethod::kAuto && fit.readings < 2 * fit.unknowns) {
      notes.push_back(fmt::format("{}: few readings for so many operations; {} sweep may be as good", device, option));
    }
    if (fit.method != AccountMethod::kSweep && fit.unknowns > kMostJudged) {
      notes.push_back(fmt::format("{}: more than {} operations, whose errors are not known", device, kMostJudged));
    }
  }
}

}  // namespace flyball
