// Reads the stage times of a few steps from a trace of PyTorch's profiler (Chrome trace JSON).
//
// A step is a ProfilerStep#N of the host's threads or, where the training never called the profiler's step(), the time
// from the end of one optimizer's step to the end of the next. Within a step, events are assigned to stages by the
// names that PyTorch itself writes: the DataLoader's next batch, autograd's functions, collectives, copies to the
// device, the optimizer's step. Forward is the host's time between the batch and the first gradient. Of communication,
// only the part after the last gradient is counted, since the rest is hidden behind the backward pass.
//
// That part consists of the transfer and, before it, the wait for slower ranks. In the trace of one rank the two look
// alike; only the traces of several ranks tell them apart (steps_of_ranks()). Times are those of the host. They are
// right for an accelerator if the step waits for it, as loss.item() and most optimizers make it do.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/stage.h"
#include "trace/byte_source.h"

namespace flyball {

// The stage times of traced steps.
struct TracedSteps {
  // The times of each stage, by iteration. Only stages that are run in every iteration and that the trace shows have
  // times: load_data, transfer, forward, backward, communication, update and, for several ranks, wait.
  PerStage<std::vector<Seconds>> times;
  std::vector<Seconds> iterations;  // how long each step was as a whole
  std::vector<long> numbers;        // N of each ProfilerStep#N; empty where the training never called step()
  std::size_t steps = 0;
  std::size_t ranks = 1;       // how many ranks were traced
  long world_size = 0;         // how many ranks ran, by PyTorch's distributedInfo; 0: not stated
  bool accelerator = false;    // whether the trace has kernels or copies of a device
  bool communication = false;  // whether the trace has collectives, overlapped or not
};

// Reads the steps of one rank. Where there are three or more, the first is left out as a warm-up. Only the times of
// events are kept in memory. Throws InputError where the text is no JSON, is cut off, has no list of events, or has no
// step with a backward pass, and what reading the bytes throws.
[[nodiscard]] TracedSteps read_pytorch_steps(ByteSource& bytes);

// How the times of several ranks are joined.
enum class RankTimes {
  kMean,  // every time, the wait included, is the mean over the ranks: for a forecast of the traced ranks themselves
  kEach,  // the steps of the first rank are followed by those of the next, without the wait: for a forecast of other
          // nodes, in which the wait for the slowest of all draws is computed
};

// Returns the steps in which all of these ranks were traced, matched by their numbers. The communication of a step is
// the shortest of all ranks, that of the rank that came last and did not have to wait; how much longer another rank's
// is counts as its wait. Throws InputError, which names one of `sources`, where ranks have no step in common, or have
// no numbers and different numbers of steps. Both vectors must have the same size, 1 or above.
[[nodiscard]] TracedSteps steps_of_ranks(const std::vector<std::string>& sources, std::vector<TracedSteps> ranks,
                                         RankTimes which = RankTimes::kMean);

}  // namespace flyball
