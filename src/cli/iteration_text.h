// A job's measured iteration beside its plan, as text for `flyball jobs JOB --iteration`.
#pragma once

#include <string>

#include "wire/iteration_messages.h"

namespace flyball {

// Returns what each stage was busy, by plan and as measured, and the ten operations that added most to being late.
[[nodiscard]] std::string iteration_text(const MeasuredIteration& iteration);

}  // namespace flyball
