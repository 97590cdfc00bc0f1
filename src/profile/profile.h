// Measured profiles: the time and energy of each instruction of each stage with each of its options.
//
// A profile is the CSV `stage,instruction,frequency,time,energy` that Zeus and lowtime use: stage from 0, clock in MHz,
// time in s, energy in J, one row per measured clock. Columns rank, dp_rank, pp_rank, tp_rank are accepted; ranks of
// one stage are merged (below). Every other column is a label (option_labels.h): rows of one clock that differ in a
// label are different options. Left out are columns without a name and those that end with `_sd`, which say how sure a
// number is. An instruction with one row takes constant time (Perseus section 4.4).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "profile/option_labels.h"

namespace flyball {

// One way to run a computation: at this clock it takes this time and this energy, the GPU's whole draw included. Its
// labels, where it has any, stand in a LabelTable beside the list of options.
struct ClockOption {
  Megahertz frequency;  // 0 where the clock is not set
  Seconds time;
  Joules energy;
};

// The most options of an operation: plans count them in 16 bits, and more are no clocks of a GPU.
inline constexpr std::size_t kMostOptions = 10'000;

struct OperationProfile {
  int stage = 0;
  std::string instruction;  // "forward", "backward", ...; see pipeline/instruction.h
  // At least one, highest clock first, and within a clock fastest first. Without labels no clock stands twice.
  std::vector<ClockOption> options;
  std::size_t line = 0;  // where the operation first stands in its file; 0 where it stands in none
  LabelTable labels{};   // of the options

  [[nodiscard]] bool constant_time() const { return options.size() == 1; }
};

// Immutable once read; safe to share between threads.
struct Profile {
  std::string source;                        // file path, for messages
  int stages = 0;                            // stages 0 .. stages-1 all have operations
  std::vector<OperationProfile> operations;  // ordered by stage, then as in the file
  std::vector<std::string> label_columns{};  // names of all labels, in the order of the file

  // Returns null where there is none. Cost: linear in the number of operations.
  [[nodiscard]] const OperationProfile* find(int stage, std::string_view instruction) const;
};

// Returns whether a column of this name is a label. It is none if the format knows the column or leaves it out.
[[nodiscard]] bool is_label_column(std::string_view name);

// Reads a profile from text; `source` names it in messages.
//
// Merging of ranks: at each clock a stage is as slow as its slowest rank and takes the mean energy of its ranks, since
// ranks of one stage run the same computation in lock step (Perseus section 4.4). Only clocks, and labels at them, that
// every rank measured are kept. With a column power_limit the frequency may be left out: it is then 0.
// Throws InputError (file, line, column, mend) for: missing columns, no rows, fields that are no finite numbers, times
// or energies that are not positive (times are from 1 ns to 1e6 s, energies up to 1e9 J, clocks up to 1e6 MHz, power
// limits up to 1e6 W, 10,000 options per operation, stages up to 99,999), a clock that stands twice with the same
// labels, rows of one operation without labels whose clocks are neither falling nor rising, a stage without rows below
// a stage with rows. Cost: linear in the text, but for sorting.
[[nodiscard]] Profile read_profile(const std::string& source, std::string_view text);
[[nodiscard]] Profile read_profile_file(const std::filesystem::path& path);

// What a row of a profile says. The instruction's name is not owned.
struct ProfileRow {
  long stage = 0;
  std::string_view instruction;
  long rank = 0;  // tells the ranks of one stage apart
  ClockOption option;
  OptionLabels labels{};
};

// Returns the profile of these rows, which are merged and refused as those of a text are. It is bit by bit what
// read_profile() makes of the same rows, but for the lines; errors name `source` alone.
[[nodiscard]] Profile profile_of_rows(const std::string& source, std::span<const ProfileRow> rows);

// Returns the profile as CSV text, with `comment` lines ('#' is added) above the header.
[[nodiscard]] std::string write_profile(const Profile& profile, const std::vector<std::string>& comment);

}  // namespace flyball
