// What a run takes besides its iterations: checkpoints, evaluations, and the work and time that failures cost.
//
// All nodes stop for a checkpoint or an evaluation; the components that do not work then idle. A failure of one node
// stops all of them: what was computed since the last checkpoint is computed again, at the power of iterations, after a
// restart. Failures of the N nodes are taken to be independent and as likely at any time, so that the job fails every
// M = (mean time between failures of a node) / N on average.
//
// Model: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
// Computer Systems 22, 2006, the complete model. With S from one checkpoint's end to the next, n of these and a restart
// of R,
//   time = n M e^(R/M) (e^(S/M) - 1),
// exact for such failures, which may also hit a restart. For S and R far below M the loss of each failure is S/2 + R,
// and the checkpoint interval of least loss is sqrt(2 d M) for checkpoints of length d (Young, "A first order
// approximation to the optimum checkpoint interval", CACM 17, 1974).
//
// All functions are pure. Cost: O(types).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/run_description.h"

namespace flyball {

struct Interruptions {
  std::vector<InterruptionForecast> list;  // only kinds that the description states
  Joules lost;                             // repeated work and restarts, the mean
  Joules failure_deviation;                // standard deviation of `lost`, to first order
};

// Returns what interrupts so many iterations, which take `time` together, and in which all nodes of each type draw
// `powers`. Throws InputError where a failure is so likely between two checkpoints that the run would hardly end.
[[nodiscard]] Interruptions interruptions_of(const RunDescription& run, double iterations, Seconds time,
                                             const std::vector<PerComponent<Watts>>& powers);

// Returns a sentence on failures and the checkpoint interval of least loss; none without [restarts].
[[nodiscard]] std::optional<std::string> sentence_on_failures(const RunDescription& run, const RunForecast& forecast);

}  // namespace flyball
