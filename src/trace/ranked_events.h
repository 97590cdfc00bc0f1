// Several event traces as one: the ranks of one training job, each of which wrote a trace of its own.
//
// Their times must be of one clock, as on one node. Every rank's operations are operations of their own, so that what
// two ranks do at once on one device shares its power; OperationTable::rank() tells whose an operation is. Edges join
// operations of one rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/event_trace.h"

namespace flyball {

struct RankFile {
  std::string path;
  int rank = 0;
};

// Opens the traces, at least one. A device's name in `options.device_names` may be of one rank, "3/GPU:0", which comes
// before the entry of all ranks, "GPU:0". The stats are those of all traces together: sums of counts, the earliest
// beginning, the latest end. Throws what open_event_trace() throws, and InputError where nothing ran on a rank, or its
// times do not meet those of the others. The tables must outlive the result. Cost of next(): linear in the number of
// ranks.
[[nodiscard]] std::unique_ptr<EventTrace> open_ranked_traces(const std::vector<RankFile>& files,
                                                             const EventTraceOptions& options,
                                                             OperationTable& operations, DeviceTable& devices);

// The rank that a trace says it is of (PyTorch's distributedInfo), or kNoRank. Reads the beginning of the file. Throws
// what open_event_trace() throws of files that cannot be read.
[[nodiscard]] int rank_in_trace(const std::string& path);

}  // namespace flyball
