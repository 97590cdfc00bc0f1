// The part of flyball._native that reports how far an elastic job is.
#pragma once

#include <nanobind/nanobind.h>

namespace flyball {

void add_elastic(nanobind::module_& module);

}  // namespace flyball
