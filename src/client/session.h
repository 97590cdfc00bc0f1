// One rank of a training job, from its first step to its last: it profiles itself online, reports to the planning
// server, fetches its schedule and realises it, computation by computation (Perseus table 2 and figure 4).
//
// The training thread calls step_begin, set_speed, begin, end, step_end and never waits for anybody: two threads of the
// session talk to the server, one (ClockController) to the device. Whatever fails there - server, agent, driver - is
// tried again for ever, is told of once, and costs the training nothing but the savings: clocks are then at their
// default, and a schedule that is already there stays in force while only the server is away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "client/clock_controller.h"
#include "client/online_profiler.h"
#include "device/sampler.h"
#include "wire/job_messages.h"

namespace flyball {

struct SessionOptions {
  // Where the job is planned. No server: no schedule ever comes, but profiling and measuring work.
  std::string server;
  JobRequest job;    // id and token are needed with a server; every rank sends the same
  RankRequest rank;  // without clocks: the session fills them in
  bool profile = true;
  OnlineProfiler::Options sweep;
  // For a GPU whose time runs so many times as fast as this machine's clock (a simulated one): times are reported in
  // the GPU's seconds, as its energies are.
  double time_scale = 1.0;
  // After a new clock took hold, so much of the GPU's time is not measured: twice what a change takes.
  Seconds settle{0.03};
  Seconds sampling_period = kDefaultSamplingPeriod;
  ClockController::Options controller;  // on_change is the session's own
  // Told, in a sentence, of what went wrong or right again; by any of the session's threads, one at a time.
  std::function<void(const std::string&)> notice;
};

// What a session needs of a GPU. open_session_gpu() makes it of a real or simulated one.
struct SessionGpu {
  std::vector<Megahertz> clocks;    // that can be set, highest first
  std::unique_ptr<ClockSink> sink;  // where they are set; null: nowhere
  Meter meter;                      // with an energy counter
};

enum class SessionPhase {
  kProfiling,  // the sweep goes on
  kWaiting,    // for a schedule
  kRunning,    // a schedule
  kIdle,       // neither profiles nor has a server to wait for
};
[[nodiscard]] std::string_view name_of(SessionPhase phase);

struct SessionState {
  SessionPhase phase = SessionPhase::kIdle;
  SweepProgress sweep;
  bool server_reachable = false;
  std::int64_t schedule_version = 0;  // in force; 0: none
  std::size_t schedule_point = 0;     // of the frontier
  Seconds planned_time;               // of an iteration, as the schedule in force promises
  Joules planned_energy;              // of one pipeline, without waiting for others
  std::uint64_t steps = 0;
  Seconds last_step;    // in the GPU's time
  Watts waiting_power;  // mean over the sweep; 0 before
  ClockControllerState clocks;
};

// What the counter says of a window of steps.
struct StepsEnergy {
  Seconds time;
  Joules energy;
};

class Session {
 public:
  Session(SessionOptions options, SessionGpu gpu);
  // Clocks are at their default afterwards. Waits for the call to the device that is under way, not for the server.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The training thread's. Only step_end takes longer than a microsecond (it hands the step over). Throw UsageError for
  // what the names of instructions may not be, and for calls that do not fit together (end without begin).
  void step_begin();
  void set_speed(std::string_view type);  // of the computation that comes next
  void begin(std::string_view type);
  void end(std::string_view type);
  void step_end();

  // Any thread's, like all below. The notice goes out in the background.
  void set_straggler(StragglerNotice notice);

  // The sweep starts over with the next step.
  void profile_again();

  [[nodiscard]] SessionState state() const;
  // All that was measured so far, in the order of the sweep.
  [[nodiscard]] std::vector<Measurement> measurements() const;

  // Energy of this rank's GPU between two calls, whatever ran in between. Ending waits for the counter, two of its
  // periods. UsageError where no window is open.
  void window_begin();
  [[nodiscard]] StepsEnergy window_end();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball
