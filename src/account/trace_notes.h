// Notes of what reading two traces has found or left out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/power_trace.h"
#include "trace/ranked_events.h"

namespace flyball {

struct TraceNames {
  std::string events;
  std::string power;
};

// Appends a sentence about each thing that a reader of the footprint should know of the traces, and of the footprint's
// devices of which the power is not known while they worked.
void note_traces(const TraceNames& files, const EventTraceStats& events, const PowerTraceStats& power,
                 const std::vector<FootprintDevice>& devices, FootprintNotes& notes);

// Notes the energy of sockets and their memory that were measured and of which the events say nothing, while they do of
// others. `option` is what adds up sockets, or empty where nothing can.
void note_unattributed(const std::vector<FootprintDevice>& devices, std::string_view option, FootprintNotes& notes);

using DeviceNames = std::map<std::string, std::string, std::less<>>;

// Returns a warning for each GPU that several ranks of a node call by the same name without `mapped` saying so: ranks
// of which each sees one GPU only all call it GPU:0. `option` is what users call the map.
[[nodiscard]] std::vector<std::string> shared_gpus(const std::vector<RankFile>& ranks, const EventTraceStats& events,
                                                   const DeviceNames& mapped, std::string_view option,
                                                   const DeviceTable& devices);

}  // namespace flyball
