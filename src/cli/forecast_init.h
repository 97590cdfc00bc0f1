// flyball forecast init: a commented RUN.toml to begin with.
#pragma once

#include <CLI/CLI.hpp>

namespace flyball {

void add_forecast_init(CLI::App& forecast);

}  // namespace flyball
