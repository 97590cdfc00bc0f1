// Each row is drawn to one side or the other; the model is fitted to one and judged by both.
#include "cluster/held_out_fit.h"

#include <utility>
#include <vector>

namespace flyball {

HeldOutFit fit_held_out(std::span<const JobMeasurement> measured, Megahertz f0, double share, Random& random) {
  std::vector<JobMeasurement> fitted;
  std::vector<JobMeasurement> held;
  for (const JobMeasurement& row : measured) (random.uniform() < share ? held : fitted).push_back(row);
  if (fitted.empty()) std::swap(fitted, held);
  HeldOutFit result{fit_job_model(fitted, f0), fitted.size(), held.size(), {}, {}};
  result.on_fitted = model_error(result.model, fitted);
  result.on_held = model_error(result.model, held);
  return result;
}

}  // namespace flyball
