// Reads an activity from the data files of devices and workloads.
#pragma once

#include "profile/data_file.h"
#include "profile/gpu_model.h"

namespace flyball {

[[nodiscard]] inline Activity read_activity(const DataTable& table) {
  return {table.get<double>("clocked_share"), Watts(table.get<double>("compute_w")),
          Watts(table.get<double>("memory_w"))};
}

}  // namespace flyball
