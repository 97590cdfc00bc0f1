// Reads XSpace files (*.xplane.pb), which the profilers of TensorFlow 2 and JAX write.
//
// The file has planes (a device, or the host), which have lines (a stream of a GPU, a thread), which have events. Names
// stand behind the events and are given by number. The names that JAX gave the operations of a compiled program stand
// in the program's own description, in the plane "/host:metadata". Field numbers: tsl/profiler/protobuf/xplane.proto,
// xla/service/hlo.proto and xla/xla_data.proto of OpenXLA.
#pragma once

#include <cstdint>
#include <functional>

#include "base/units.h"
#include "trace/byte_source.h"
#include "trace/json_events.h"

namespace flyball {

struct XPlaneStats {
  std::uint64_t file_bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t aggregated = 0;  // events that stand for many, without a time; they are not given
  Nanoseconds base_time = 0;     // Unix time of the profile's beginning, where the file says so; else 0
};

// Whether the bytes are no text, as their beginning tells. Must be called before they are read.
[[nodiscard]] bool is_xplane(ByteSource& bytes);

// Calls `take` for every event as it would stand in XProf's Chrome trace: first the names of processes (planes) and
// threads (lines), then a plane's events. An operation of XLA has the name that JAX gave it as the argument `name`.
// `progress` is called with the share that is read. Throws InputError where the bytes are no such file, or are cut off.
// Memory: the file's bytes, and its names.
[[nodiscard]] XPlaneStats read_xplane(ByteSource& bytes, const std::function<void(const JsonEvent&)>& take,
                                      const std::function<void(double)>& progress);

}  // namespace flyball
