// `flyball forecast init`: writes a commented RUN.toml for the user to complete.
#pragma once

#include "cli/command.h"

namespace flyball {

void add_forecast_init(const Command& forecast);

}  // namespace flyball
