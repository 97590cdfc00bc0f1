// Notes of what reading two traces has found or left out.
#pragma once

#include <string>
#include <vector>

#include "account/footprint.h"
#include "trace/event_trace.h"
#include "trace/power_trace.h"

namespace flyball {

struct TraceNames {
  std::string events;
  std::string power;
};

// Appends a sentence about each thing that a reader of the footprint should know of the traces, and of the footprint's
// devices of which the power is not known while they worked.
void note_traces(const TraceNames& files, const EventTraceStats& events, const PowerTraceStats& power,
                 const std::vector<FootprintDevice>& devices, FootprintNotes& notes);

}  // namespace flyball
