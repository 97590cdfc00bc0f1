// What an option chooses besides its clock: labels.
//
// A label is a column of the profile and the text of one of its fields: the SMs that a communication kernel gets, the
// kernel that it runs beside, whether activations are recomputed, a power limit. Planners compare times and energies
// alone and never look inside; what they chose is told by the option's index.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flyball {

struct Label {
  std::string name;   // the column
  std::string value;  // not empty

  auto operator<=>(const Label&) const = default;
};

// In the order of the columns; empty fields are left out.
using OptionLabels = std::vector<Label>;

// The label of a GPU's power limit in W, whose values are numbers.
inline constexpr std::string_view kPowerLimitLabel = "power_limit";

// Returns "attention=norm-12, mlp=rope-6", for messages and pictures; empty where there is no label.
[[nodiscard]] std::string label_text(const OptionLabels& labels);

// The labels of an operation's options. Each set of labels stands at many clocks and is kept once. Immutable; without
// labels it holds nothing.
class LabelTable {
 public:
  LabelTable() = default;
  // One set per option; at most 65,535 options. Cost: O(n log n).
  explicit LabelTable(std::span<const OptionLabels> of_options);

  // Returns whether no option has a label.
  [[nodiscard]] bool empty() const { return set_of_.empty(); }
  // The labels of an option, by its index.
  [[nodiscard]] const OptionLabels& of(std::size_t option) const;
  // Returns whether two options differ in nothing but the clock.
  [[nodiscard]] bool alike(std::size_t a, std::size_t b) const { return empty() || set_of_[a] == set_of_[b]; }

 private:
  std::vector<OptionLabels> sets_;     // in the order of their first options
  std::vector<std::uint16_t> set_of_;  // by option: the index of its set
};

}  // namespace flyball
