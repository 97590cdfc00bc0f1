// The engine of `flyball account`: opens traces, puts them on one clock, attributes the energy, and takes the mean of
// several runs.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "account/activity.h"
#include "account/attribution.h"
#include "account/clock_offset.h"
#include "account/energy_tree.h"
#include "account/event_joules.h"
#include "account/footprint.h"
#include "account/method.h"
#include "account/self_similar.h"
#include "account/static_power.h"
#include "base/units.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/power_trace.h"
#include "trace/ranked_events.h"

namespace flyball {

// What the caller's users call the settings that notes and errors name; here as C and Python programs know them.
struct AccountNames {
  std::string_view event_devices = "event_devices";
  std::string_view power_devices = "power_devices";
  std::string_view counter_ranges = "counter_ranges_j";
  std::string_view chrome_device = "chrome_device";
  std::string_view row_period = "row_period_s";
  std::string_view clock_offset = "clock_offset_s";
  std::string_view jiffies = "jiffies";
  std::string_view method = "method";
  std::string_view sensor_window = "sensor_window_s";
  std::string_view static_powers = "static_powers_w";
};

struct AccountSettings {
  AccountMethod method = AccountMethod::kAuto;
  Seconds sensor_window;
  Multiplicity multiplicity = Multiplicity::kOperations;
  std::optional<Seconds> clock_offset;  // as given; otherwise it is found where the traces do not overlap as they are
  bool estimate_offset = false;         // find it even where they overlap
  EventTraceOptions events;
  PowerTraceOptions power;
  StaticPowers static_powers;  // of devices of which it is not to be found
  AccountNames names;
};

// Functions that are called while it works. Either may be missing.
struct AccountListener {
  // Called when `share`, in [0, 1], of the work that `doing` names is done.
  std::function<void(std::string_view doing, double share)> progress;
  std::function<void(const std::string& text)> warning;  // `text` is also among the notes
};

struct TraceFiles {
  std::string events;  // with `ranks`, what messages call all of them
  std::string power;
  std::string jiffies;  // if empty, the whole processor's energy is the program's
  // The power trace itself where it is in memory; `power` is then what messages call it. Must outlive the run.
  std::optional<std::string_view> power_text = std::nullopt;
  std::vector<RankFile> ranks{};  // the event traces of a job's ranks on one node, in place of one trace
};

struct AccountRequest {
  std::vector<TraceFiles> runs;  // at least one
  // Whether the runs are the nodes of one job, which are added up, and not runs of which the mean is taken. Each has
  // `ranks` then.
  bool ranks = false;
  AccountSettings settings;
  SelfSimilar similar;
  int samples = 0;       // of a step of the training, all ranks together; 0: not known
  bool summary = false;  // whether the result is to have it, as below
  bool tree = false;
  bool picture = false;                   // of the first run; needs the tree
  AccountedEvents* each_event = nullptr;  // is told of the events of each run, one run after the other; must outlive it
};

struct AccountResult {
  Footprint footprint;
  Footprint summary;  // over self-similar parts; empty unless wanted
  EnergyTree tree;
  PowerPicture picture;
  FootprintNotes notes;

  // What a program that asks for one footprint gets: the summary where the request wants it.
  [[nodiscard]] Footprint& asked(const AccountRequest& request) { return request.summary ? summary : footprint; }
};

// Reads the traces and attributes their energy. Throws what the readers throw, InputError where the traces cannot be
// put on one clock or nothing ran, UsageError where settings contradict the traces.
[[nodiscard]] AccountResult account_runs(const AccountRequest& request, const AccountListener& listener = {});

// How far footprints can be trusted (Smaragdine 5.4).
struct QualityFigures {
  struct Sparsing {
    std::size_t keep = 1;     // every keep-th reading
    double similarity = 0.0;  // to the footprint of all readings; mean over the runs
  };
  std::vector<std::string> runs;
  RunQuality quality;
  std::vector<Sparsing> sparsing;  // empty where no run is a folder
};

// Computes the figures. Each run is a footprint's JSON file or a folder with its traces.
[[nodiscard]] QualityFigures measure_quality(const std::vector<std::string>& runs, const SelfSimilar& similar,
                                             const AccountListener& listener = {});

}  // namespace flyball
