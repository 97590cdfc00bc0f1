// The names and meanings of what a session says of itself, as C and Python programs see them.
#include "client/session_state.h"

#include "base/record.h"

namespace flyball {

// Like the options it has a default for each field, which is what holds before the session knows better.
Record<SessionState> description_of(const SessionState* /*type*/) {
  using R = SessionState;
  using Clocks = ClockControllerState;
  return Record<R>::request(
             "SessionState",
             "What flyball_session_get_state tells in C, and flyball.Session.state in Python. Times are in "
             "the GPU's seconds.")
      .field("phase", &R::phase, "What the session is doing.")
      .field("clocks_done", &R::sweep, &SweepProgress::clocks_done, "Clocks that the sweep has measured.")
      .field("clocks_most", &R::sweep, &SweepProgress::clocks_most,
             "What clocks_done is at the end of the sweep if the energy keeps falling.")
      .field("server_reachable", &R::server_reachable, "Whether the planning server answers.")
      .field("schedule_version", &R::schedule_version, "Version of the schedule in force; 0: there is none.")
      .field("schedule_point", &R::schedule_point, "The schedule's point of the frontier.")
      .field("planned_time_s", &R::planned_time, "Time of an iteration, as the schedule in force promises.")
      .field("planned_energy_j", &R::planned_energy,
             "Energy of one pipeline, without waiting for others, as the schedule in force promises.")
      .field("steps", &R::steps, "Steps that have ended.")
      .field("last_step_s", &R::last_step, "Time of the last of them.")
      .field("waiting_w", &R::waiting_power,
             "What this GPU draws while it waits, mean over the sweep; 0 until it is measured.")
      .field("clocks_working", &R::clocks, &Clocks::working, "False while clocks are refused.")
      .field("clocks_set", &R::clocks, &Clocks::applied, "How many clocks have reached the device.")
      .field("clocks_refused", &R::clocks, &Clocks::failed, "How many attempts to set one were refused.")
      .field("clock_mhz", &R::clocks, &Clocks::requested, "The clock that was asked for last; 0: the default.")
      .field("clock_age_p50_s", &R::clock_age_p50,
             "Time from set_speed until the clock has reached the device, in this machine's seconds: median.")
      .field("clock_age_p99_s", &R::clock_age_p99, "The same: 99th percentile.")
      .field("reconfiguring", &R::reconfiguring,
             "Whether the schedule in force is being adjusted from step to step; see executed_steps.")
      .field("straggler_w", &R::straggler_power,
             "What one pipeline draws while it waits for others after its iteration, as the schedule says.")
      .field("order", &R::order,
             "The number of the order in which the step runs; 0: that of the schedule in the options.")
      .field(
          "promise", &R::promise,
          "Whether iterations take what the schedule in force promises. Slower: they took longer, and the clocks are "
          "at their default until the server sends another schedule. Dearer: this GPU takes more energy than at "
          "maximum clocks; what follows is the server's to decide, which knows the other GPUs.")
      .field("at_maximum_s", &R::at_maximum, "What an iteration takes at maximum clocks, as measured; 0: unknown.")
      .field("compared_iterations", &R::savings, &RankSavings::iterations,
             "Iterations by plan whose energy is known, since the session began.")
      .field("compared_energy_j", &R::savings, &RankSavings::energy,
             "What they took of this rank's GPU, by its own counter.")
      .field("compared_energy_at_maximum_j", &R::savings, &RankSavings::energy_at_maximum,
             "What as many iterations at maximum clocks take.")
      .field("compared_energy_error_j", &R::savings, &RankSavings::energy_error,
             "Standard error of the difference of these energies.")
      .field("power_limit_w", &R::clocks, &Clocks::limit,
             "Power limit that the session holds on the board, for its plan; 0: what held before.");
}

}  // namespace flyball
