// Sets of labels are numbered as they come first.
#include "profile/option_labels.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>

namespace flyball {

std::string label_text(const OptionLabels& labels) {
  std::string text;
  for (const Label& label : labels) text += (text.empty() ? "" : ", ") + label.name + "=" + label.value;
  return text;
}

LabelTable::LabelTable(std::span<const OptionLabels> of_options) {
  if (std::all_of(of_options.begin(), of_options.end(), [](const OptionLabels& labels) { return labels.empty(); })) {
    return;
  }
  assert(of_options.size() <= std::numeric_limits<std::uint16_t>::max());
  std::map<OptionLabels, std::uint16_t> known;
  for (const OptionLabels& labels : of_options) {
    const auto [entry, is_new] = known.try_emplace(labels, static_cast<std::uint16_t>(sets_.size()));
    if (is_new) sets_.push_back(labels);
    set_of_.push_back(entry->second);
  }
}

const OptionLabels& LabelTable::of(std::size_t option) const {
  static const OptionLabels kNone;
  return empty() ? kNone : sets_[set_of_[option]];
}

}  // namespace flyball
