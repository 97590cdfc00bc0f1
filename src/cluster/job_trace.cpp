// Reads and writes Flyball's own job traces. Fields are checked by functions that the readers of other traces share.
#include "cluster/job_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cluster/trace_fields.h"

namespace flyball {

Seconds read_trace_time(const CsvReader& csv, std::string_view column) {
  const double value = csv.number(column);
  if (value >= 0.0 && value <= kMostTraceSeconds) return Seconds(value);
  throw InputError(csv.where(column),
                   fmt::format("{} is {}, it must be from 0 to {:.0f} s", column, csv.text(column), kMostTraceSeconds),
                   "count seconds from the begin of the trace");
}

int read_trace_gpus(const CsvReader& csv, std::string_view column) {
  return csv.count(column, kMostJobGpus, "write how many GPUs the job asked for, or delete the row of a job without");
}

void finish_trace(JobTrace& trace, std::size_t last_line) {
  if (trace.jobs.empty()) {
    throw InputError({trace.source, last_line, last_line == 0 ? 0u : 1u}, "the trace has no jobs",
                     "add one row per job");
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
}

JobTrace read_job_trace(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"submit_time", "num_gpus", "duration"});
  const bool models = csv.has_column("model");
  const bool batches = csv.has_column("batch_size");
  if (batches && !models) {
    throw InputError({source, csv.line(), 1}, "the header has batch_size but no model",
                     "add the column model, or leave batch_size out");
  }
  JobTrace trace{source, {}};
  while (csv.next()) {
    TraceJob job;
    job.submit = read_trace_time(csv, "submit_time");
    job.gpus = read_trace_gpus(csv, "num_gpus");
    job.duration = read_trace_time(csv, "duration");
    if (job.duration.value() <= 0.0) {
      throw InputError(csv.where("duration"), "the duration is 0", "delete the row of a job that did not run");
    }
    if (models) job.model = std::string(csv.text("model"));
    if (batches && !csv.text("batch_size").empty()) {
      const long batch = csv.integer("batch_size");
      if (batch < 1 || batch > 1'000'000'000) {
        throw InputError(csv.where("batch_size"), fmt::format("batch_size is {}, it must be from 1 to 1e9", batch),
                         "write the samples per iteration of all GPUs together, or leave the field empty");
      }
      if (job.model.empty()) {
        throw InputError(csv.where("batch_size"), "a batch size without a model",
                         "name the model, or leave both empty");
      }
      job.batch_size = static_cast<int>(batch);
    }
    job.line = csv.line();
    if (trace.jobs.size() == kMostTraceJobs) {
      throw InputError({source, csv.line(), 1}, fmt::format("the trace has more than {} jobs", kMostTraceJobs),
                       "split it");
    }
    trace.jobs.push_back(std::move(job));
  }
  finish_trace(trace, csv.line());
  return trace;
}

JobTrace read_job_trace_file(const std::filesystem::path& path) {
  return read_job_trace(path.string(), read_text_file(path));
}

std::string write_job_trace(const JobTrace& trace, const std::vector<std::string>& comment) {
  std::string text;
  for (const std::string& line : comment) text += line.empty() ? "#\n" : "# " + line + "\n";
  const bool models =
      std::any_of(trace.jobs.begin(), trace.jobs.end(), [](const auto& job) { return !job.model.empty(); });
  text += models ? "submit_time,num_gpus,duration,model,batch_size\n" : "submit_time,num_gpus,duration\n";
  for (const TraceJob& job : trace.jobs) {
    text += fmt::format("{},{},{}", job.submit.value(), job.gpus, job.duration.value());
    if (models) text += fmt::format(",{},{}", job.model, job.batch_size == 0 ? "" : fmt::to_string(job.batch_size));
    text += '\n';
  }
  return text;
}

}  // namespace flyball
