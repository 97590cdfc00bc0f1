// Evaluates the equations in logarithms, each with its derivatives by the chain rule.
#include "cluster/job_model_terms.h"

#include <algorithm>
#include <cmath>

namespace flyball {
namespace {

constexpr double kTiny = 1e-12;  // 0 has no logarithm

// log((a^gamma + b^gamma)^(1/gamma)) from the logarithms of a and b, and its derivatives by these two and by gamma.
struct SmoothMaximum {
  double log_value;
  double by_log_a;
  double by_log_b;
  double by_gamma;
};

SmoothMaximum smooth_maximum(double log_a, double log_b, double gamma) {
  const double apart = std::abs(log_a - log_b);
  const double ratio = std::exp(-gamma * apart);  // (smaller / larger)^gamma
  const double larger = 1.0 / (1.0 + ratio);
  const double lesser = ratio * larger;
  const double above = std::log1p(ratio);
  const bool a_is_larger = log_a >= log_b;
  return {std::max(log_a, log_b) + above / gamma, a_is_larger ? larger : lesser, a_is_larger ? lesser : larger,
          -(above / gamma + lesser * apart) / gamma};
}

}  // namespace

TimeTerms time_terms(const double* p, const TimePoint& at, double* slopes) {
  const double samples = at.bs * at.r;
  const double io = p[0] + p[1] * samples + kTiny;
  const double grad = p[2] + (p[3] + p[4] / at.f) * at.bs + kTiny;
  const SmoothMaximum local = smooth_maximum(std::log(io), std::log(grad), p[kGamma1]);

  TimeTerms terms{grad, 0.0, local.log_value};
  double by_local = 1.0;
  if (slopes != nullptr) std::fill_n(slopes, kTimeParameters, 0.0);
  if (at.n >= 2.0) {
    const int first = at.one_node ? kLocalSync : kNodeSync;
    const double* const s = p + first;
    const double others = at.n - 2.0;
    terms.sync = s[0] / at.f + (s[1] / at.f + s[2] + s[4] / at.n) * others + s[3] + kTiny;
    const SmoothMaximum whole = smooth_maximum(local.log_value, std::log(terms.sync), p[kGamma2]);
    terms.log_time = whole.log_value;
    by_local = whole.by_log_a;
    if (slopes != nullptr) {
      const double by_sync = whole.by_log_b / terms.sync;
      double* const out = slopes + first;
      out[0] = by_sync / at.f;
      out[1] = by_sync / at.f * others;
      out[2] = by_sync * others;
      out[3] = by_sync;
      out[4] = by_sync / at.n * others;
      slopes[kGamma2] = whole.by_gamma;
    }
  }
  if (slopes == nullptr) return terms;
  const double by_io = by_local * local.by_log_a / io;
  const double by_grad = by_local * local.by_log_b / grad;
  slopes[0] = by_io;
  slopes[1] = by_io * samples;
  slopes[2] = by_grad;
  slopes[3] = by_grad * at.bs;
  slopes[4] = by_grad * at.bs / at.f;
  slopes[kGamma1] = by_local * local.by_gamma;
  return terms;
}

double log_power(const double* p, const PowerConditions& at, double* slopes) {
  const auto polynomial = [&](const double* c) { return ((c[3] * at.f + c[2]) * at.f + c[1]) * at.f + c[0]; };
  const double fill = std::log(at.bs + p[kTheta]) + p[kBeta];
  const double grad = polynomial(p);
  const double still = at.above ? at.f : 1.0;
  const double power =
      grad * fill * at.grad_share + polynomial(p + kSyncPower) * at.sync_share + p[kStaticPower] * still + kTiny;
  if (slopes != nullptr) {
    double by_grad = fill * at.grad_share / power;
    double by_sync = at.sync_share / power;
    for (int i = 0; i < 4; ++i) {
      slopes[i] = by_grad;
      slopes[kSyncPower + i] = by_sync;
      by_grad *= at.f;
      by_sync *= at.f;
    }
    slopes[kBeta] = grad * at.grad_share / power;
    slopes[kTheta] = slopes[kBeta] / (at.bs + p[kTheta]);
    slopes[kStaticPower] = still / power;
  }
  return std::log(power);
}

}  // namespace flyball
