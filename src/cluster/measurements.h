// Reads measured or synthetic costs of iterations from CSV (docs/formats/job-measurements.md).
//
// Flyball's columns: model,gpus,nodes,batch_size,clock_mhz,step_time_s,step_energy_j and, for jobs that share GPUs,
// gpu_utilisation,memory_gib (both or neither); batch_size counts all GPUs of the job. Also read are the step times of
// the Pollux and Sia artifacts (`placement` or `num_nodes,num_replicas`, with `local_bsz,step_time`), which have
// neither clock nor energy and whose model is named after the file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/iteration_cost.h"

namespace flyball {

// Measurements by the model's name, then in the order of the file.
using MeasurementSet = std::map<std::string, std::vector<JobMeasurement>>;

// Reads measurements. `source` names the text in error messages; `default_clock` is used where the clock column is
// missing. Throws InputError with line, column and mend. Cost: linear in the text.
[[nodiscard]] MeasurementSet read_measurements(const std::string& source, std::string_view text,
                                               Megahertz default_clock);
[[nodiscard]] MeasurementSet read_measurements_file(const std::filesystem::path& path, Megahertz default_clock);

}  // namespace flyball
