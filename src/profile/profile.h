// Measured profiles: the time and energy of each instruction of each stage at each clock.
//
// A profile is the CSV `stage,instruction,frequency,time,energy` that Zeus and lowtime use: stage from 0, clock in MHz,
// time in s, energy in J, one row per measured clock. Columns rank, dp_rank, pp_rank, tp_rank are accepted; ranks of
// one stage are merged (below). An instruction with one row takes constant time (Perseus section 4.4).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace flyball {

// One way to run a computation: at this clock it takes this time and this energy, the GPU's whole draw included.
struct ClockOption {
  Megahertz frequency;
  Seconds time;
  Joules energy;
};

struct OperationProfile {
  int stage = 0;
  std::string instruction;           // "forward", "backward", ...; see pipeline/instruction.h
  std::vector<ClockOption> options;  // at least one, highest clock first, no clock twice
  std::size_t line = 0;              // where the operation first stands in its file; 0 where it stands in none

  [[nodiscard]] bool constant_time() const { return options.size() == 1; }
};

// Immutable once read; safe to share between threads.
struct Profile {
  std::string source;                        // file path, for messages
  int stages = 0;                            // stages 0 .. stages-1 all have operations
  std::vector<OperationProfile> operations;  // ordered by stage, then as in the file

  // Returns null where there is none. Cost: linear in the number of operations.
  [[nodiscard]] const OperationProfile* find(int stage, std::string_view instruction) const;
};

// Reads a profile from text; `source` names it in messages.
//
// Merging of ranks: at each clock a stage is as slow as its slowest rank and takes the mean energy of its ranks, since
// ranks of one stage run the same computation in lock step (Perseus section 4.4). Only clocks that every rank measured
// are kept.
// Throws InputError (file, line, column, mend) for: missing columns, no rows, fields that are no finite numbers, times
// or energies that are not positive (times are from 1 ns to 1e6 s, energies up to 1e9 J, clocks up to 1e6 MHz and
// 10,000 of them per operation, stages up to 99,999), a clock that stands twice, rows of one operation whose clocks are
// neither falling nor rising, a stage without rows below a stage with rows. Cost: linear in the text.
[[nodiscard]] Profile read_profile(const std::string& source, std::string_view text);
[[nodiscard]] Profile read_profile_file(const std::filesystem::path& path);

// What a row of a profile says. The instruction's name is not owned.
struct ProfileRow {
  long stage = 0;
  std::string_view instruction;
  long rank = 0;  // tells the ranks of one stage apart
  ClockOption option;
};

// The profile of these rows, merged and refused as those of a text are; errors name `source` alone. What read_profile
// makes of the same rows, bit by bit, but for the lines.
[[nodiscard]] Profile profile_of_rows(const std::string& source, std::span<const ProfileRow> rows);

// The profile as CSV text, with `comment` lines ('#' is added) above the header.
[[nodiscard]] std::string write_profile(const Profile& profile, const std::vector<std::string>& comment);

}  // namespace flyball
