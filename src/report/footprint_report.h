// A footprint as people and programs read it: JSON, CSV, and a page with diagrams, power trace and tables.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "account/activity.h"
#include "account/energy_tree.h"
#include "account/footprint.h"
#include "draw/svg_canvas.h"

namespace flyball {

// What the traces were like, in one line each: an offset that was applied, gaps, what was dropped.
using FootprintNotes = std::vector<std::string>;

// docs/formats/footprint.md. The same text that `flyball account diff` reads.
[[nodiscard]] std::string footprint_json(const Footprint& footprint, const FootprintNotes& notes);
[[nodiscard]] std::string footprint_csv(const Footprint& footprint);

// Power of the devices over time with a lane of activity for each part beneath (Smaragdine figure 3).
struct PowerPicture {
  const ActivityBins* activity = nullptr;
  std::vector<std::string> devices;  // by index of the activity's devices
  std::vector<std::string> lanes;
};
[[nodiscard]] SvgCanvas power_picture_canvas(const PowerPicture& picture, double width);

struct FootprintPage {
  std::string title;
  const Footprint* footprint = nullptr;
  const Footprint* summary = nullptr;  // over self-similar parts
  const EnergyTree* tree = nullptr;
  std::optional<PowerPicture> power;
  FootprintNotes notes;
  std::vector<std::string> commands;
  std::size_t top = 30;  // rows of the tables
};
[[nodiscard]] std::string footprint_html(const FootprintPage& page);

}  // namespace flyball
