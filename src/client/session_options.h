// What a session is to do. The options are described once for all interfaces: flyball_session_options (C), the
// arguments of flyball.Session (Python) and the manual's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/described.h"
#include "base/units.h"
#include "client/clock_controller.h"
#include "client/online_profiler.h"
#include "driver/gpu_vendors.h"
#include "measure/sampler.h"
#include "wire/job_messages.h"

namespace flyball {

// What a lease is for.
struct LeasePurpose {
  std::string text{};                  // for people: "training run 12, rank 3"
  std::string job{};                   // its id, by which GPUs of jobs are told
  std::optional<std::int64_t> rank{};  // of that job
};

struct SessionGpuRequest {
  std::size_t gpu = 0;  // as `flyball devices` counts
  std::string clocks;   // where they are set
  LeasePurpose purpose;
  std::vector<GpuVendor> vendors = gpu_vendors();  // the vendors whose GPUs are looked at
};

// What a session runs of a plan that no server has made for it.
struct GivenSchedule {
  RankSchedule schedule;             // of this rank; its times may be 0 where they are not known
  std::optional<Watts> power_limit;  // of the rank's board, while the schedule's clocks hold
};

struct SessionOptions {
  std::string server;  // "": there is none, and no schedule ever comes unless one is given
  std::string ca_file;
  std::string registration_token;  // "": default_registration_token()
  JobRequest job;                  // id and token are needed with a server; every rank sends the same
  RankRequest rank;                // without clocks, which the session fills in
  std::string plan;                // a file, of which the caller makes `given` (api/session_plan.h)
  double plan_time_ratio = 0.0;    // what it promises; 0: what the file says
  std::optional<GivenSchedule> given;
  bool clocks_ahead = true;    // becomes that of `job` (description_of())
  bool executed_steps = true;  // becomes that of `job` where the planner adjusts plans (description_of())
  JobLimits limits;            // without budget; becomes that of `job` (description_of())
  SessionGpuRequest gpu;       // for open_session_gpu()
  bool profile = true;
  OnlineProfiler::Options sweep;
  double time_scale = 1.0;  // times are reported in the GPU's seconds, as its energies are
  Seconds settle{0.03};     // twice the time that a clock change takes
  Seconds sampling_period = kDefaultSamplingPeriod;
  // How long the ranks of a pipeline may take to agree on a new order, before the server is told that they do not.
  Seconds time_to_agree{10.0};
  ClockController::Options controller;  // the session sets on_change itself
  // Called with a sentence when something has failed or works again, by any of the session's threads, one at a time.
  std::function<void(const std::string&)> notice;
};

// read_options<SessionOptions>() reads all options but `notice`, as a C or Python program gives them, and refuses what
// check_options() refuses.
[[nodiscard]] Record<SessionOptions> description_of(const SessionOptions*);

// Throws UsageError for a server without the job's id and token, for a CA file with a server that is not reached by
// TLS, and for a plan file with a server.
void check_options(const SessionOptions& options);

}  // namespace flyball
