// One stage of the pipeline: a process with a GPU of its own, driven step by step by the launcher.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "channel.h"
#include "flyball/flyball.h"

namespace trainer {

// In which order the stages run their computations.
enum class RunOrder {
  kOwn,      // 1F1B
  kPlanned,  // what the planner chooses, within the memory limit
  kIgnored,  // 1F1B, although the job promises to run what the planner chooses
};

// How the stages hand their work to the GPUs.
enum class Launch {
  kStream,  // queue it in a stream, and call Flyball with the stream
  kAhead,   // queue it in a stream, and call Flyball without
  kWait,    // wait for each computation
};

struct Job {
  int pipelines = 1;               // of the job, each with all stages
  std::vector<double> forward_s;   // per stage, at the GPU's highest clock
  std::vector<double> backward_s;  // per stage
  int microbatches = 12;

  // What real trainings have besides computations, in seconds of the GPUs; nothing where a list is empty or a time 0.
  std::vector<double> transfer_s;     // per link; occupies both stages
  double load_s = 0.0;                // before each forward of the first and of the last stage
  double reduce_s = 0.0;              // of the gradients, after the last backward of every stage
  double first_backward_saves = 0.0;  // share by which the first backward of an iteration is shorter

  // Flyball.
  std::string server;
  std::string plan;              // a file to run in place of a server's plan
  double plan_time_ratio = 0.0;  // as flyball_session_options
  std::string ca_file;
  std::string name = "pipeline-trainer";
  std::string token;
  std::string clocks;  // as flyball_session_options
  std::string planner = "perseus";
  std::vector<int> memory_limit;  // microbatches that each stage may hold at a time; empty: what 1F1B holds
  RunOrder order = RunOrder::kOwn;
  int clock_stride = 1;
  int steps_per_clock = 5;
  double noise = 0.0;
  double switch_latency_s = 0.0;
  double time_scale = 1.0;
  bool flyball = true;  // false: train without it
  Launch launch = Launch::kStream;
  std::string profile;  // file for what the stages measure; empty: none

  [[nodiscard]] int stages() const { return static_cast<int>(forward_s.size()); }
  [[nodiscard]] bool run_ahead() const { return launch != Launch::kWait; }
};

// What the launcher asks of a stage.
enum class Request : std::int32_t {
  kStep,          // run one iteration
  kSynchronised,  // all gradients are there, those of the other pipelines too: the iteration is over
  kProfile,       // start the sweep
  kStraggler,     // another pipeline takes `value` times as long from now on; 1: it has recovered
  kSlow,          // this stage's computations take `value` times as long from now on
  kWindowBegin,
  kWindowEnd,
  kWriteProfile,  // append what was measured to the job's profile
  kQuit,
};

struct Command {
  Request request = Request::kStep;
  double value = 0.0;
  std::int64_t order = 0;  // of kStep: that the stages have agreed on (flyball_use_order)
};

// A stage's answer to every command: kStep is answered when the gradients are done, kSynchronised after the step's end.
struct Answer {
  double result = 0.0;          // of kStep: what the training computed; the same whatever the clocks
  double time_s = 0.0;          // of kWindowEnd
  double energy_j = 0.0;        // of kWindowEnd
  bool complete = true;         // of kWindowEnd: the energy is all that flowed
  int most_held = 0;            // of kStep: microbatches whose activations the stage held at a time
  std::int64_t order_held = 0;  // of all others: the order that the stage could run next (flyball_order_held)
  flyball_session_state state{};
};

// The stage's neighbours and its launcher. The first stage has nobody before it, the last nobody after it. Likewise of
// the same stage of other pipelines: the first pipeline has nobody below it, the last nobody above it.
struct Links {
  Channel before;
  Channel after;
  Channel below;
  Channel above;
  Channel launcher;
};

// Runs until the launcher says so or a neighbour is gone. `rank` counts the stages of one pipeline after the other.
// Returns the process's exit status.
int run_stage(const Job& job, int rank, Links links);

}  // namespace trainer
