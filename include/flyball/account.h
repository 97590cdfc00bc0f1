// The public C++ interface of accounting: from an event trace and a power trace to joules per tensor, layer and module
// of a model. Link libflyball-cpp; open this header first.
//
//   const auto energy = flyball::account(R"({"events": "trace.json", "power": "power.csv"})");
//   for (const flyball::AccountedRow& row : energy.rows) std::cout << row.name << ' ' << row.energy_j << " J\n";
//
// It computes what `flyball account`, flyball_footprint_open() in C and flyball.account() in Python compute, from the
// same options.
//
// Units. Names end with their unit: seconds (_s), joules (_j).
// Errors. account() throws std::runtime_error, whose what() says which option or trace is wrong, where
// (file:line:column) and how to mend it. After an error nothing is held and nothing was written.
// Ownership. Everything is a value.
// Threads. account() may run in several threads at once.
// Source. Smaragdine, ICSE'24, definition 3.4.
#pragma once

#include <string>
#include <vector>

namespace flyball {

// The operations of one name on one device in one pass.
struct AccountedRow {
  std::string name;             // parts of the model are parted by '/'
  std::string device;           // "GPU:0"
  std::string phase;            // "forward", "backward", "optimizer"; empty where it is unknown
  double energy_j = 0.0;        // mean of the runs
  double busy_s = 0.0;          // the time in which the operations ran
  double powered_s = 0.0;       // the part of busy_s for which the power is known
  double energy_std_j = 0.0;    // standard deviation over the runs; 0 for a single run, NaN where it is unknown
  double energy_error_j = 0.0;  // half of a 90 % interval around energy_j, by what the readings tell; NaN: unknown
  int group = 0;                // rows of one number always run together: only their sum is known; 0: none
};

// Where the energy of one device went.
struct AccountedDevice {
  std::string device;
  double measured_j = 0.0;    // all that the power trace holds
  double attributed_j = 0.0;  // the sum of the device's rows
  double idle_j = 0.0;        // while nothing ran and the program was profiled
  double outside_j = 0.0;     // before and after the profile
  double elsewhere_j = 0.0;   // shares of a processor that belong to other processes, the system and the monitor
};

struct AccountedEnergy {
  std::vector<AccountedRow> rows;  // most energy first
  std::vector<AccountedDevice> devices;
  std::vector<std::string> notes;  // what was done to the traces: an offset, gaps, what was left out
  int runs = 1;
  double profiled_s = 0.0;  // from the first entry of the event trace to the last
  std::string json;         // all of it (docs/formats/footprint.md), as `flyball account diff` and `quality` read it
};

// Computes the energy of each operation. `options` is a JSON object whose fields `flyball messages AccountOptions`
// lists; paths are UTF-8. Takes about a second for five million events.
[[nodiscard]] AccountedEnergy account(const std::string& options);

}  // namespace flyball
