// Job traces: when each job was submitted, how large it was and how long it ran (docs/formats/job-trace.md).
//
// A trace is CSV with the columns `submit_time,num_gpus,duration[,model,batch_size]`, times in seconds. `duration` is
// the job's time on the GPUs that it asked for, at the default clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/units.h"

namespace flyball {

struct TraceJob {
  Seconds submit;
  int gpus = 1;
  Seconds duration;
  std::string model;     // empty: the simulator draws one
  int batch_size = 0;    // 0: the simulator draws one
  std::size_t line = 0;  // the job's line in its file; 0 if it comes from none
};

struct JobTrace {
  std::string source;          // the name of the file, for error messages
  std::vector<TraceJob> jobs;  // in order of submission
};

inline constexpr int kMostJobGpus = 4096;
inline constexpr std::size_t kMostTraceJobs = 5'000'000;

// Reads a trace. Rows may be in any order; jobs that were submitted at the same time stay in the order of their rows.
// Throws InputError (file, line, column, mend) for missing columns, no jobs, fields that are no numbers, times that are
// negative or beyond ten years, durations of 0 or below, GPUs outside 1 to kMostJobGpus, a batch size below 1, and a
// batch size without a model column.
[[nodiscard]] JobTrace read_job_trace(const std::string& source, std::string_view text);
[[nodiscard]] JobTrace read_job_trace_file(const std::filesystem::path& path);

// Returns the trace as CSV, with the `comment` lines above the header.
[[nodiscard]] std::string write_job_trace(const JobTrace& trace, const std::vector<std::string>& comment);

// Formats of published traces.
enum class TraceFormat {
  kPhilly,   // Microsoft's cluster_job_log (JSON)
  kAlibaba,  // cluster-trace-gpu-v2023 pods (CSV): num_gpu, creation_time, deletion_time, scheduled_time
  kPollux,   // Pollux and Sia workloads (CSV): time, application, num_replicas or num_gpus; no durations, so those of
             // the published size class of each application are taken
};
template <>
inline constexpr auto kNamesOf<TraceFormat> = name_list("philly", "alibaba", "pollux");

// Converts a published trace. Jobs that never ran or need no GPU are left out, and times are shifted to begin at 0.
// `dropped`, unless null, receives how many rows were left out. Throws InputError as read_job_trace() does.
[[nodiscard]] JobTrace convert_job_trace(TraceFormat format, const std::string& source, std::string_view text,
                                         std::size_t* dropped = nullptr);

// A request for a synthetic trace. Arrivals follow the hours of a day; sizes and durations have the published shape of
// production traces: mostly one GPU, and log-normal durations with a long tail. The same request gives the same bytes.
struct TraceSynthesis {
  int jobs = 1901;  // as many as PowerFlow's evaluation has in a day
  Seconds span{86400.0};
  Seconds median_duration{500.0};
  double large_jobs = 1.0;  // scales the share of jobs of more than one GPU
  std::uint64_t seed = 1;
  // The models and batch sizes that jobs are drawn from; if empty, the columns are left out.
  struct Pool {
    std::string model;
    std::vector<int> batch_sizes;
  };
  std::vector<Pool> pool;
};
[[nodiscard]] JobTrace synthesize_job_trace(const TraceSynthesis& request);

}  // namespace flyball
