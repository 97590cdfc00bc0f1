// Gives a session the plan file that its options name.
#pragma once

#include "client/session.h"

namespace flyball {

// Reads options.plan, if it names a file, and puts this rank's part of it into options.given. Throws InputError where
// the plan does not fit the job or the rank's GPU, and SystemError where the file cannot be read.
void take_plan_file(SessionOptions& options, const SessionGpu& gpu);

}  // namespace flyball
