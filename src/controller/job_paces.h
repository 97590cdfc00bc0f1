// The paces of pipeline jobs, as the controller sets them at the planning server that plans their iterations: the
// speeds of a job are points of its frontier, and the server is told of a straggler, so that the job runs the point of
// that iteration time.
//
// The straggler lasts for a while only, and is announced again before that is over: when the controller is lost, the
// server lets the job go back to the pace that it had by itself. One thread talks to the server. What is wanted is
// handed over and what is known read out without waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/periodic_thread.h"
#include "base/units.h"
#include "client/plan_server.h"
#include "cluster/iteration_cost.h"

namespace flyball {

// The name of the straggler that a job waits for.
inline constexpr const char* kPaceStraggler = "flyball-cluster-run";

struct JobPacesOptions {
  std::string server;     // HOST:PORT, https://HOST:PORT or unix:PATH
  std::string token{};    // the administrator's
  std::string ca_file{};  // of the authorities that issued the server's certificate; empty: the system's
  Seconds period{1.0};    // between two questions
  Seconds silent_after{5.0};
  Seconds lasts{300.0};  // how long a pace holds after the controller was lost
};

struct JobPace {
  std::string plan;           // the job's id at the server; empty: the server knows none
  bool answers = false;       // what follows is not old
  std::string trouble;        // what went wrong last; empty: nothing
  int gpus = 0;               // that the plan is for
  std::int64_t frontier = 0;  // version
  // What an iteration of the whole job takes at each speed, slowest first, the last one being the job's own pace;
  // empty: there is no frontier, or the job has ended.
  std::vector<IterationCost> speeds;
  int speed = 0;          // in force
  Nanoseconds since = 0;  // monotonic time at which that was known to be so
};

// At most 32 points of a frontier, from the slowest to the base point, for so many GPUs at each stage.
[[nodiscard]] std::vector<IterationCost> speeds_of(const FrontierReport& frontier, int gpus_per_stage);

// Thread-safe.
class JobPaces {
 public:
  // Throws UsageError for an address that is none, and SystemError for a file that cannot be read.
  explicit JobPaces(JobPacesOptions options);
  // Tells the server nothing: paces last as they were announced.
  ~JobPaces();
  JobPaces(const JobPaces&) = delete;
  JobPaces& operator=(const JobPaces&) = delete;

  // Follows the engine's job, which was put back into the queue so often: the server's job slurm-JOB.RESTARTS or, where
  // there is none, slurm-JOB.
  void follow(std::int64_t job, int restarts);
  void forget(std::int64_t job);
  // `frontier` is that of the reading from which the speed was chosen. Until this is called, the job keeps its pace.
  void want(std::int64_t job, int speed, std::int64_t frontier);
  [[nodiscard]] JobPace pace(std::int64_t job) const;
  // Waits until the server was asked about the job, or until that time has passed.
  void wait_for(std::int64_t job, Seconds most) const;

 private:
  struct Wish {
    int speed = 0;
    std::int64_t frontier = 0;
    bool operator==(const Wish&) const = default;
  };
  struct Followed {
    int restarts = 0;
    std::optional<Wish> wish;
    JobPace shown;
    Nanoseconds seen = 0;       // when the server last answered
    Nanoseconds announced = 0;  // when the straggler was
  };
  void turn();
  std::string exchange(std::int64_t number, Followed& job);
  void announce(Followed& job);
  [[nodiscard]] JobStatus status_of(std::int64_t number, const Followed& job);

  JobPacesOptions options_;
  PlanServer server_;  // in the thread alone
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Followed> jobs_;
  PeriodicThread thread_;
};

}  // namespace flyball
