// Reads what Nsight Systems exports to SQLite (`nsys export --type sqlite`) into records.
//
// The tables and columns are those of NVIDIA's "SQLite Export Schema Reference"
// (https://docs.nvidia.com/nsight-systems/UserGuide/index.html, before: nsys-exporter/exported_data.html), which says
// that they are made only where there is something in them, and change from version to version. Those that are missing
// are told in the stats. docs/formats/event-trace.md says which rows are read and what becomes of them.
#pragma once

#include <string>

#include "trace/event_record.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"

namespace flyball {

// Returns whether the file is an SQLite database, by its first bytes. Throws InputError where its name is that of a
// report of Nsight Systems, which has to be exported first. Pipes are never read.
[[nodiscard]] bool is_nsys(const std::string& path);

// Reads the database row by row, without changing it or running what it defines. Throws SystemError where the file
// cannot be read, and InputError where it is no database, has no table that is needed, has a view in a table's place, a
// value of another kind or a text of more than 1 MiB. Memory: 40 bytes for each row, and the different names.
void read_nsys(const std::string& path, const EventTraceOptions& options, DeviceTable& devices, EventRecords& records);

}  // namespace flyball
