// Starts the stages, runs iterations, and measures windows of them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "stage.h"

namespace trainer {

// Means over one iteration, from the GPUs' own counters.
struct Window {
  std::string name;
  int steps = 0;
  double time_s = 0.0;    // of the GPUs
  double energy_j = 0.0;  // all stages of the first pipeline
  bool complete = true;   // false: a counter did not tell all of it
  // What the schedule in force promised, 0 without one; the energy is without waiting for other pipelines.
  double planned_time_s = 0.0;
  double planned_energy_j = 0.0;
  double straggler_w = 0.0;  // all stages, while they wait for other pipelines after the iteration
  std::int64_t schedule_version = 0;
  bool same_schedule = true;   // from begin to end
  std::int64_t order = 0;      // in which the last step ran; 0: 1F1B
  std::vector<int> most_held;  // per stage, microbatches held at a time in the last step
};

// The version of the schedule that all stages run; 0 where they run different ones, or none.
[[nodiscard]] std::int64_t schedule_of_all(const std::vector<Answer>& answers);

class Launcher {
 public:
  explicit Launcher(Job job);
  // Lets the stages close their sessions, and waits for them.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // One iteration. Throws where a stage has died, and where the training computed something else than before.
  void step();
  // Iterations until `done` says so of the stages' states; false after `most` and after that time.
  bool step_until(const std::function<bool(const std::vector<Answer>&)>& done, int most,
                  std::chrono::seconds patience = {});
  // Nine iterations and more in parts of a third, at least three, until the two fastest agree: what holds this machine
  // up counts time_scale times, and never makes an iteration faster. The slower of the two is told.
  Window measure(const std::string& name, int steps);

  void profile();
  void write_profile();
  // Another pipeline of the job, with which gradients are exchanged at the end of every iteration, takes so many times
  // as long from now on. Of several pipelines, the last one's GPUs compute so much slower, and nobody announces it.
  // Otherwise `usual_s` (of the GPUs' time) is what it usually takes, and `announce` says that Flyball is told.
  void straggle(double degree, double usual_s, bool announce);

  [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }
  [[nodiscard]] const std::vector<pid_t>& processes() const { return processes_; }

  // Looked at between iterations; true ends them with an exception.
  std::function<bool()> interrupted;

 private:
  Window measure_part(const std::string& name, int steps);
  Window measure_once(const std::string& name, int steps);
  void command_all(const Command& command);
  void collect();

  Job job_;
  std::vector<Channel> stages_;
  std::vector<pid_t> processes_;
  std::vector<Answer> answers_;
  std::vector<int> most_held_;  // per stage, in the last step
  double result_ = 0.0;         // of the first iteration
  bool has_result_ = false;
  double least_step_s_ = 0.0;  // the other pipeline's iteration, in seconds of this machine
};

}  // namespace trainer
