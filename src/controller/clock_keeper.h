// Keeps elastic jobs below a limit by the clocks of their GPUs: lower first, see it on the meter, then raise and start.
//
// Each pass is given the jobs with the speeds that the scheduler decided. If they would take more than the limit as
// they run now, all get a common ceiling, the highest at which they fit. What is to be lower is handed to the agents at
// once. A job that was lowered counts with what it had before until its meters show less, or until they have had time
// to; what is to be higher, and jobs that wait to be started, have to fit beside what counts. GPUs of which no agent
// tells count with their boards' limit.
//
// A job whose pace a planning server keeps (job_paces.h) is kept below the limit in the same way, but for what sets its
// speed: the caller does. A ceiling lets such a job run at the same share of its speeds as the others of theirs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "controller/cluster_engine.h"
#include "controller/node_agents.h"

namespace flyball {

// One elastic job, as a pass is told of it.
struct ClockedJob {
  std::int64_t job = 0;
  std::vector<NodeGpus> gpus;  // that it has or, while it waits, is to have; without indices: any that no job has
  bool draws = true;  // it runs, or may begin to at any moment; false: it waits, and gets its clocks beforehand
  std::vector<Watts> expected;  // of all these GPUs, by speed
  std::optional<int> speed;     // as decided; none: as it is, or lower
  // Of a job whose clocks a planning server's plan sets, and no lease of ours.
  struct Pace {
    bool answers = false;   // the server
    int speed = 0;          // in force
    Nanoseconds taken = 0;  // monotonic time from which the job runs so
    Seconds iteration;      // of which the watts rise and fall: their mean over two counts
  };
  std::optional<Pace> pace{};

  [[nodiscard]] int top() const { return static_cast<int>(expected.size()) - 1; }
};

// What is known of a job after a pass.
struct ClockedPower {
  int speed = 0;         // at which its GPUs may run: that of the fastest
  bool held = false;     // whether a clock is set on all of them
  bool ready = false;    // whether no GPU may run faster than was asked for; those that no agent tells of do not count
  bool settled = false;  // whether the meters were read since that was so
  Watts expected;        // at that speed
  Watts counted;         // against the limit; of a job that waits: if it were started now
  std::optional<Watts> measured;
  Watts peak;     // the highest that was measured since it has run so; 0: not settled since
  Joules energy;  // by the meters, since the job was first seen here
};

// Not thread-safe. A pass costs some microseconds for each job, and waits for nothing.
class ClockKeeper {
 public:
  // `clocks` are the speeds, rising. `agents` must outlive this object.
  ClockKeeper(NodeAgents& agents, std::vector<Megahertz> clocks, Watts board_limit);

  // Without `acts`, the agents are asked for nothing.
  void pass(const std::vector<ClockedJob>& jobs, Watts limit, bool acts);

  // Null for a job that the last pass was not told of.
  [[nodiscard]] const ClockedPower* of(std::int64_t job) const;
  [[nodiscard]] Watts counted() const { return counted_; }                     // by all jobs that draw
  [[nodiscard]] Watts lowest() const { return lowest_; }                       // by the same, at the lowest clocks
  [[nodiscard]] Megahertz asked(std::int64_t job) const;                       // the highest clock that it is to have
  [[nodiscard]] int asked_speed(std::int64_t job) const;                       // -1: none
  [[nodiscard]] bool is_settling() const { return is_settling_; }              // whether another pass is due soon
  [[nodiscard]] std::optional<Megahertz> ceiling() const { return ceiling_; }  // none: all run as decided

 private:
  struct Kept {
    std::vector<NodeGpus> gpus;
    bool draws = false;
    int asked = -1;                // speed; -1: nothing yet
    int top = -1;                  // its highest speed
    std::optional<Joules> energy;  // by the GPUs' counters
    struct Counted {
      Nanoseconds at = 0;
      Joules energy;
    };
    std::deque<Counted> counted;  // since the pace was taken, as far back as its mean reaches
    // When its clocks were last lowered, unless the meters have shown that. Of a job that waits: when they were asked
    // for.
    std::optional<Nanoseconds> lowered;
    double off = 1.0;  // the most of the last minute that was measured over what was expected; at least 1
    Nanoseconds off_at = 0;
    ClockedPower power;

    void forget_peak() { power.peak = Watts(0.0); }
  };
  struct Seen {
    int silent = 0;  // GPUs
    int count = 0;
    int speed = -1;  // -1: of no GPU anything is known
    bool held = true;
    Nanoseconds bound_since = 0;  // the latest
    Nanoseconds read_at = 0;      // the earliest
    std::optional<Watts> measured;
    std::optional<Joules> energy;
    Nanoseconds energy_at = 0;  // the mean of the GPUs
  };
  struct Row {
    const ClockedJob* job;
    Kept* kept;
    Seen seen;
  };

  [[nodiscard]] std::vector<std::size_t> gpus_on(const NodeGpus& place) const;
  [[nodiscard]] Seen look_at(const ClockedJob& job) const;
  [[nodiscard]] Watts power_at(const Row& row, int speed) const;
  static void count_energy(Row& row);
  void count(Row& row, Nanoseconds now);
  [[nodiscard]] int ceiling_of(const Row& row) const;
  void find_ceiling(const std::vector<Row>& rows, Watts limit, Nanoseconds now);
  void ask_agents(const std::vector<Row>& rows, bool may_release);

  NodeAgents& agents_;
  std::vector<Megahertz> clocks_;
  Watts board_limit_;
  int top_;
  std::map<std::int64_t, Kept> kept_;
  std::map<std::string, AgentReading> readings_;      // of this pass
  std::map<std::string, std::vector<bool>> claimed_;  // GPUs that jobs are known to have
  int levels_;  // of a ceiling, above the lowest: as many as the speeds of the job that has most
  int ceiling_level_ = 0;
  std::optional<Megahertz> ceiling_;
  Watts counted_;
  Watts lowest_;
  bool is_settling_ = false;
};

}  // namespace flyball
