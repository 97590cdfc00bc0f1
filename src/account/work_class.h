// What class of work an operation is, by its name: computing, communicating, copying or optimizing.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.h"
#include "trace/trace.h"

namespace flyball {

enum class WorkClass : std::uint8_t { kCompute, kCommunicate, kCopy, kOptimize };
template <>
inline constexpr auto kNamesOf<WorkClass> = name_list("compute", "communicate", "copy", "optimize");

// Collectives and transfers between ranks have names of NCCL, RCCL, Gloo, MPI, PyTorch's c10d or XLA; copies those of
// CUDA ("Memcpy HtoD") and PyTorch ("aten::copy_"). All others compute, unless they are of the optimizer.
[[nodiscard]] WorkClass work_class(std::string_view name, Phase phase);

}  // namespace flyball
