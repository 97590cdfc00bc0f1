// Notes of what was fitted to the readings of a power trace.
#pragma once

#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "account/regression.h"
#include "trace/operation_table.h"

namespace flyball {

// Notes of each fit how far it can be trusted, and what it has found out about the counter and the streams. `method`
// was asked for by `option`, in the words of users.
void note_fits(const std::vector<RegressionFit>& fits, const DeviceTable& devices, AccountMethod method,
               std::string_view option, FootprintNotes& notes);

}  // namespace flyball
