// `flyball forecast estimate`: what a training will take before anything is measured.
#pragma once

#include <string>

#include "cli/command.h"

namespace flyball {

void add_forecast_estimate(const Command& forecast, const std::string& command_line);

}  // namespace flyball
