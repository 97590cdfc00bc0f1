// The part of flyball._native that accounts: footprints of traces, and sessions with the agent.
#pragma once

#include <nanobind/nanobind.h>

namespace flyball {

void add_accounting(nanobind::module_& module);

}  // namespace flyball
