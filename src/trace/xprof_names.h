// Names and phases of operations as XProf, the profiler of TensorFlow 2 and JAX, writes them.
#pragma once

#include <string>
#include <string_view>

#include "trace/operation_table.h"

namespace flyball {

// The path of an operation in the model, with '/' between its parts, without what only says how it came to be.
struct XProfName {
  std::string path;  // empty if the text has no more than transformations
  Phase phase = Phase::kUnknown;
};

// Whether a text is "scope/name:Type", as TensorFlow calls its operations.
[[nodiscard]] bool is_tensorflow_operation(std::string_view text);

// Reads "gradient_tape/encoder/layer_0/MatMul/MatMul:MatMul" as encoder/layer_0/MatMul/MatMul, backward. Operations
// that apply gradients, by their type or in a scope that is named after one of Keras' optimizers, are the optimizer's.
// All others are forward.
[[nodiscard]] XProfName tensorflow_name(std::string_view text);

// Reads "jit(step)/jit(main)/transpose(jvp(encoder))/layer_0/dot_general", the name that JAX gives an operation of XLA,
// as encoder/layer_0/dot_general, backward. What stands in `transpose(...)`, or is computed once more for it, is
// backward; what is differentiated (`jvp(...)`) and no more is forward; of all others the phase is unknown.
[[nodiscard]] XProfName jax_name(std::string_view text);

}  // namespace flyball
