// What class of work an operation is, by its name: computing, communicating, copying or optimizing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "base/names.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

enum class WorkClass : std::uint8_t { kCompute, kCommunicate, kCopy, kOptimize };
template <>
inline constexpr auto kNamesOf<WorkClass> = name_list("compute", "communicate", "copy", "optimize");

// Collectives and transfers between ranks have names of NCCL, RCCL, Gloo, MPI, PyTorch's c10d or XLA; copies those of
// CUDA ("Memcpy HtoD") and PyTorch ("aten::copy_"). All others compute, unless they are of the optimizer.
[[nodiscard]] WorkClass work_class(std::string_view name, Phase phase);

// What a footprint's operations of one class took together.
struct ClassShare {
  WorkClass work = WorkClass::kCompute;
  Joules energy;
  Seconds busy;  // sum over its rows
};

// Returns the classes of which there is work, in the order of their names above.
[[nodiscard]] std::vector<ClassShare> by_class(const Footprint& footprint);

}  // namespace flyball
