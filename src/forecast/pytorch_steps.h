// Stage times of a few steps from a trace of PyTorch's profiler (Chrome trace JSON).
//
// One step is a ProfilerStep#N of the host's threads, or, where the training never called the profiler's step(), from one
// optimizer's step to the end of the next. In it, what belongs to which stage follows from the names that
// PyTorch itself writes: the DataLoader's next batch, autograd's functions, collectives, copies to the device, the
// optimizer's step; forward is the host's time between the batch and the first gradient. Communication that runs while
// gradients are computed counts for what sticks out. Times are the host's: of an accelerator they are right where the
// step waits for it, as loss.item() and most optimizers make it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "forecast/stage.h"

namespace flyball {

struct TracedSteps {
  // Per iteration, in order. Only stages of one iteration that the trace shows: load_data, transfer, forward, backward,
  // communication, update.
  PerStage<std::vector<Seconds>> times;
  std::vector<Seconds> iterations;  // how long each step was as a whole
  std::size_t steps = 0;
  bool accelerator = false;  // kernels or copies of a device were seen
};

// The first step is left out where there are three or more: it warms up. Memory is the events' times alone. Throws
// InputError where the text is no JSON, has no list of events, or no step with a backward pass.
[[nodiscard]] TracedSteps read_pytorch_steps(const std::string& source, std::string_view text);

}  // namespace flyball
