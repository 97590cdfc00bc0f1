// Converts published traces, by the columns that they have, into Flyball's own form.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/time_text.h"
#include "cluster/trace_fields.h"

namespace flyball {
namespace {

// Reads "2017-10-09 07:01:55" as seconds since 1970. What stands behind the seconds is left out, a zone too, since only
// differences are used.
std::optional<double> date_of(const nlohmann::json& object, const char* name) {
  constexpr std::size_t kToTheSecond = 19;  // characters
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() < kToTheSecond) return std::nullopt;
  const auto time = parse_date_time(std::string_view(text).substr(0, kToTheSecond), Seconds(0));
  return time ? std::optional(to_seconds(*time).value()) : std::nullopt;
}

// The job has the GPUs of its last attempt, and the running time of all attempts.
std::optional<TraceJob> philly_job(const nlohmann::json& entry) {
  const auto submit = date_of(entry, "submitted_time");
  const auto attempts = entry.find("attempts");
  if (!submit || attempts == entry.end() || !attempts->is_array()) return std::nullopt;
  TraceJob job;
  double ran = 0.0;
  long gpus = 0;
  for (const nlohmann::json& attempt : *attempts) {
    if (!attempt.is_object()) continue;
    const auto begin = date_of(attempt, "start_time");
    const auto end = date_of(attempt, "end_time");
    const auto detail = attempt.find("detail");
    if (!begin || !end || *end <= *begin || detail == attempt.end() || !detail->is_array()) continue;
    long count = 0;
    for (const nlohmann::json& node : *detail) {
      if (!node.is_object()) continue;
      const auto list = node.find("gpus");
      if (list != node.end() && list->is_array()) count += static_cast<long>(list->size());
    }
    if (count == 0) continue;
    gpus = count;
    ran += *end - *begin;
  }
  if (gpus == 0 || gpus > kMostJobGpus || ran > kMostTraceSeconds) return std::nullopt;
  job.submit = Seconds(*submit);
  job.gpus = static_cast<int>(gpus);
  job.duration = Seconds(ran);
  return job;
}

void convert_philly(JobTrace& trace, std::string_view text, std::size_t& dropped) {
  const std::string mend = "give cluster_job_log of the Philly traces, unpacked";
  const nlohmann::json log = parse_json(trace.source, text, mend);
  if (!log.is_array()) {
    throw InputError({trace.source, 1, 1}, "the file is JSON, but no array of jobs", mend);
  }
  for (const nlohmann::json& entry : log) {
    std::optional<TraceJob> job = entry.is_object() ? philly_job(entry) : std::nullopt;
    if (job) {
      trace.jobs.push_back(std::move(*job));
    } else {
      ++dropped;
    }
  }
}

void convert_alibaba(JobTrace& trace, std::string_view text, std::size_t& dropped) {
  CsvReader csv(trace.source, text, {"num_gpu", "creation_time", "deletion_time", "scheduled_time"});
  while (csv.next()) {
    const long gpus = csv.integer("num_gpu");
    if (gpus == 0 || csv.text("scheduled_time").empty() || csv.text("deletion_time").empty()) {
      ++dropped;
      continue;
    }
    TraceJob job;
    job.gpus = read_trace_gpus(csv, "num_gpu");
    job.submit = read_trace_time(csv, "creation_time");
    job.duration = read_trace_time(csv, "deletion_time") - read_trace_time(csv, "scheduled_time");
    job.line = csv.line();
    if (job.duration.value() <= 0.0) {
      ++dropped;
      continue;
    }
    trace.jobs.push_back(std::move(job));
  }
}

struct SizeClass {
  std::string_view application;
  double gpu_hours;
};

// Pollux gives each application a size class by GPU-hours: small 0-1, medium 1-10, large 10-100, extra large 100-1000.
// These are the geometric middles of the classes, and 0.3 for small.
constexpr std::array<SizeClass, 6> kSizeClasses = {
    {{"cifar10", 0.3}, {"ncf", 0.3}, {"bert", 3.0}, {"deepspeech2", 3.0}, {"yolov3", 30.0}, {"imagenet", 300.0}}};

void convert_pollux(JobTrace& trace, std::string_view text, std::size_t& /*dropped*/) {
  CsvReader csv(trace.source, text, {"time", "application"});
  const char* gpus = csv.has_column("num_replicas") ? "num_replicas" : "num_gpus";
  if (!csv.has_column(gpus)) {
    throw InputError({trace.source, csv.line(), 1}, "the header has neither num_replicas nor num_gpus",
                     "give a workload of the Pollux or Sia artifacts");
  }
  while (csv.next()) {
    TraceJob job;
    job.submit = read_trace_time(csv, "time");
    job.gpus = read_trace_gpus(csv, gpus);
    const std::string_view application = csv.text("application");
    const auto known = std::find_if(kSizeClasses.begin(), kSizeClasses.end(),
                                    [&](const SizeClass& one) { return one.application == application; });
    if (known == kSizeClasses.end()) {
      throw InputError(csv.where("application"), fmt::format("unknown application '{}'", application),
                       "known are cifar10, ncf, bert, deepspeech2, yolov3 and imagenet");
    }
    job.duration = Seconds(std::round(known->gpu_hours * 3600.0 / job.gpus));
    job.line = csv.line();
    trace.jobs.push_back(std::move(job));
  }
}

}  // namespace

JobTrace convert_job_trace(TraceFormat format, const std::string& source, std::string_view text, std::size_t* dropped) {
  JobTrace trace{source, {}};
  std::size_t left_out = 0;
  switch (format) {
    case TraceFormat::kPhilly: convert_philly(trace, text, left_out); break;
    case TraceFormat::kAlibaba: convert_alibaba(trace, text, left_out); break;
    case TraceFormat::kPollux: convert_pollux(trace, text, left_out); break;
  }
  finish_trace(trace, 0);
  const Seconds begin = trace.jobs.front().submit;
  for (TraceJob& job : trace.jobs) job.submit -= begin;
  if (trace.jobs.back().submit.value() > kMostTraceSeconds) {
    throw InputError({source}, "the trace spans more than ten years", "check its dates");
  }
  if (dropped != nullptr) *dropped = left_out;
  return trace;
}

}  // namespace flyball
