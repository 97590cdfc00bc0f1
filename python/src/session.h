// The part of flyball._native that is a training job's session.
#pragma once

#include <nanobind/nanobind.h>

namespace flyball {

void add_session(nanobind::module_& module);

}  // namespace flyball
