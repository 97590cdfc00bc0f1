// A training on simulated boards in virtual time: the boards' physics, the client's own profiler and the server's own
// planner, without processes, clocks on the wall and messages, so that what else a machine does plays no part.
//
// Stages queue their work in streams and ask for clocks there, as examples/pipeline_trainer does. Nothing is taken from
// the planner: computations, transfers and clock changes happen on boards of src/sim that are not ideal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/change_probe.h"
#include "client/online_profiler.h"
#include "server/job_plan.h"
#include "sim/specification.h"

namespace flyball::testing {

struct TrainingWorld {
  std::string gpu = "a100";
  std::vector<double> forward_s;  // per stage, at the highest clock
  std::vector<double> backward_s;
  int microbatches = 8;
  std::vector<double> transfer_s;  // per link; empty: none
  double load_s = 0.006;           // at the first and the last stage
  double reduce_s = 0.03;
  double first_backward_saves = 0.05;
  std::uint32_t seed = 1;                 // 0: ideal boards
  std::optional<Seconds> switch_latency;  // mean; none: as the boards have it
  int clock_stride = 4;
  int steps_per_clock = 5;
  bool clocks_ahead = true;

  [[nodiscard]] int stages() const { return static_cast<int>(forward_s.size()); }
};

// GPT-3 1.3B on four A100s.
[[nodiscard]] inline TrainingWorld four_stages(std::uint32_t seed) {
  TrainingWorld world;
  world.forward_s = {0.0444, 0.0444, 0.0518, 0.0474};
  world.backward_s = {0.1162, 0.1162, 0.1356, 0.1239};
  world.transfer_s = {0.002, 0.010, 0.002};
  world.seed = seed;
  return world;
}

// Means of some iterations, over all boards. Energies are what the boards' counters would show without lag.
struct TrainingWindow {
  double time_s = 0.0;
  double energy_j = 0.0;
};

class VirtualTraining {
 public:
  // Computations by stage in the order in which it runs them, with a clock each.
  using Orders = std::vector<std::vector<ScheduledComputation>>;

  explicit VirtualTraining(const TrainingWorld& world);

  // 1F1B at default clocks.
  [[nodiscard]] Orders at_maximum() const;
  // Runs so many iterations.
  TrainingWindow run(const Orders& orders, int iterations);
  // Runs iterations until the boards' temperatures have settled.
  void warm_up(const Orders& orders);
  // Sweeps the clocks, as sessions do, and returns what the ranks report.
  [[nodiscard]] std::vector<RankMeasurements> profile();
  // From now on a stage's forwards or backwards take so many times as long, as with longer sequences.
  void slow_down(int stage, bool backward, double factor);
  // From the next iteration on, all of a stage's computations, or a link's transfers, do.
  void slow_stage(std::size_t stage, double times) { stages_[stage].longer[0] = stages_[stage].longer[1] = times; }
  void slow_link(std::size_t link, double times) { link_slowdowns_[link] = times; }
  // Asks for a clock of a stage's board between two iterations; 0: default clocks.
  void ask(int stage, Megahertz clock) { ask(stages_[static_cast<std::size_t>(stage)], clock); }
  // What a stage ran in the last iteration, transfers included, and the name of a type.
  [[nodiscard]] const std::vector<InstructionSpan>& spans(std::size_t stage) const { return stages_[stage].spans; }
  [[nodiscard]] static std::string type_name(std::uint16_t type);
  // When its computations' clocks were asked for.
  [[nodiscard]] const std::vector<Nanoseconds>& asked(std::size_t stage) const { return stages_[stage].asked_times; }
  // One iteration of a short sweep of a stage, as a session does it: the first before the iteration, the second after
  // it, with what the first has returned. The second returns what has been measured by then.
  struct SweepStep {
    std::optional<Megahertz> clock;
    Nanoseconds begin = 0;
  };
  [[nodiscard]] SweepStep sweep_begin(int stage, OnlineProfiler& profiler);
  [[nodiscard]] std::vector<InstructionMeasurement> sweep_end(int stage, OnlineProfiler& profiler,
                                                              const SweepStep& step);
  // The times of the computations of the last iteration, by stage.
  [[nodiscard]] std::vector<std::vector<MeasuredTimes>> measured() const;

 private:
  struct Post {
    Nanoseconds time = 0;
    Nanoseconds length = 0;
  };
  // What both ends of a link have posted in this iteration, forwards and backwards.
  struct Link {
    std::vector<Post> sent[2];
    std::vector<Post> awaited[2];
  };
  struct Stage {
    BoardSpec spec;
    BoardState state;
    Nanoseconds next_change = 0;  // of the energy counter
    std::vector<CounterPoint> counter;
    std::vector<InstructionSpan> spans;  // of this iteration
    double longer[2] = {1.0, 1.0};       // forwards and backwards, times
    std::vector<Nanoseconds> asked_times;
    // The newest clock that was asked for and has not been handed to the driver.
    std::optional<Megahertz> wanted;
    Nanoseconds arrives = 0;
    Megahertz asked;             // of the driver; 0: default
    Nanoseconds held_since = 0;  // of `asked`
    Nanoseconds asked_at = 0;    // when the newest clock was asked for
    std::vector<double> ages;    // s from there until the clock held
    std::optional<ChangeProbe::Request> probed;
    // The clock of the next computation, which is to be asked for at `lead_at`, and when it was.
    std::optional<Megahertz> lead_clock;
    Nanoseconds lead_at = 0;
    std::optional<Nanoseconds> led_at;
    // In this iteration:
    std::size_t next = 0;
    bool posted = false;
    // Messages of forwards and backwards, in all and before what is posted now.
    std::size_t made[2] = {0, 0};
    std::size_t sent[2] = {0, 0};
    std::size_t awaited[2] = {0, 0};
    std::size_t sent_before[2] = {0, 0};
    std::size_t awaited_before[2] = {0, 0};
    int backwards = 0;
    bool done = false;
  };

  void ask(Stage& stage, Megahertz clock);
  void hand_over(Stage& stage);
  static void look_ahead(Stage& stage, const std::vector<ScheduledComputation>& order);
  void go_to(Stage& stage, Nanoseconds time);
  void work(Stage& stage, std::uint16_t type, const WorkKind& kind, double seconds);
  bool go_on(std::size_t index, const std::vector<ScheduledComputation>& order);
  void iterate(const Orders& orders);
  void sweep_step(Stage& stage, OnlineProfiler* profiler, ChangeProbe* probe, Megahertz clock, Nanoseconds begin);
  [[nodiscard]] static std::vector<InstructionMeasurement> evaluate(const Stage& stage, OnlineProfiler& profiler);
  [[nodiscard]] double chance() { return 0.5 * (1.0 + evenly_drawn(draws_++)); }
  [[nodiscard]] double evenly_drawn(std::uint64_t n) const;

  const TrainingWorld world_;
  std::vector<Stage> stages_;
  std::vector<Link> links_;
  std::vector<double> link_slowdowns_;
  std::uint64_t draws_ = 0;
};

// What a plan promises, and what a training by it does; in per cent against maximum clocks.
struct PromiseFigures {
  double promised_slower = 0.0;
  double promised_saving = 0.0;
  double slower = 0.0;
  double saving = 0.0;
};

// Trains at maximum clocks, profiles, plans and trains by plan.
[[nodiscard]] PromiseFigures keep_promise(const TrainingWorld& world, const std::string& planner, int iterations = 12);

}  // namespace flyball::testing
