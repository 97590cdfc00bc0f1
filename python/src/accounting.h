// The part of flyball._native that speaks of account sessions with the agent.
#pragma once

#include <nanobind/nanobind.h>

namespace flyball {

void add_account_session(nanobind::module_& module);

}  // namespace flyball
