// `flyball forecast init`: writes a commented RUN.toml for the user to complete.
#pragma once

#include <CLI/CLI.hpp>

namespace flyball {

void add_forecast_init(CLI::App& forecast);

}  // namespace flyball
