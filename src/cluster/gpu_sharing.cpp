// Both jobs are slowed down until their shares of the GPU fit, then by their disturbance, and at last by the board's
// limit.
#include "cluster/gpu_sharing.h"

#include <algorithm>

namespace flyball {

SharedGpu share_gpu(const std::array<GpuTenant, 2>& tenants, Watts busy, Watts limit) {
  const auto& [a, b] = tenants;
  const Watts once = std::min({busy, a.power, b.power});
  const double crowd = std::min(1.0, 1.0 / (a.utilisation + b.utilisation));
  const std::array<Watts, 2> own = {(a.power - once) * crowd, (b.power - once) * crowd};
  const Watts most = std::max({limit, a.power, b.power}) - once;
  const Watts sum = own[0] + own[1];
  const double throttled = sum > most ? most / sum : 1.0;
  SharedGpu shared{};
  for (std::size_t i = 0; i < 2; ++i) {
    shared.pace[i] = crowd * (1.0 - kDisturbance * crowd * tenants[1 - i].utilisation) * throttled;
    shared.power[i] = once * 0.5 + own[i] * throttled;
  }
  return shared;
}

}  // namespace flyball
