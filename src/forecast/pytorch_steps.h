// Stage times of a few steps from a trace of PyTorch's profiler (Chrome trace JSON).
//
// One step is a ProfilerStep#N of the host's threads, or, where the training never called the profiler's step(), from
// one optimizer's step to the end of the next. In it, what belongs to which stage follows from the names that PyTorch
// itself writes: the DataLoader's next batch, autograd's functions, collectives, copies to the device, the optimizer's
// step; forward is the host's time between the batch and the first gradient. Communication that runs while gradients
// are computed counts for what sticks out. What sticks out on one rank is the transfer and, before it, the wait for
// slower ranks, which look alike there; only the traces of several ranks tell the two apart (steps_of_ranks()). Times
// are the host's: of an accelerator they are right where the step waits for it, as loss.item() and most optimizers make
// it.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/stage.h"
#include "trace/byte_source.h"

namespace flyball {

struct TracedSteps {
  // Per iteration, in order. Only stages of one iteration that the trace shows: load_data, transfer, forward, backward,
  // communication, update; of several ranks also wait.
  PerStage<std::vector<Seconds>> times;
  std::vector<Seconds> iterations;  // how long each step was as a whole
  std::vector<long> numbers;        // N of each ProfilerStep#N; empty where nobody called the profiler's step()
  std::size_t steps = 0;
  std::size_t ranks = 1;       // traced
  long world_size = 0;         // ranks that ran, as PyTorch's distributedInfo has it; 0: not stated
  bool accelerator = false;    // kernels or copies of a device were seen
  bool communication = false;  // collectives were seen, hidden or not
};

// The first step is left out where there are three or more: it warms up. Memory is the events' times alone. Throws
// InputError where the text is no JSON, is cut off, has no list of events, or no step with a backward pass, and what
// reading the bytes throws.
[[nodiscard]] TracedSteps read_pytorch_steps(ByteSource& bytes);

// What is made of the times of several ranks.
enum class RankTimes {
  kMean,  // every time is the mean over the ranks, and so is the wait: for a run of the traced ranks
  kEach,  // step after step of the first rank, then of the next, without the wait: for a run of other nodes, whose wait
          // is that for the slowest of so many draws
};

// The steps that several ranks were all traced in, by their numbers. Communication is that of the rank that came last
// and had the transfer alone before it, the shortest; what the others' is longer is their wait. Throws InputError, of
// sources[i], where ranks have no step in common, or no numbers and different numbers of steps. Precondition: not
// empty.
[[nodiscard]] TracedSteps steps_of_ranks(const std::vector<std::string>& sources, std::vector<TracedSteps> ranks,
                                         RankTimes which = RankTimes::kMean);

}  // namespace flyball
