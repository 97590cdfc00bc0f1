// A footprint for people to read: CSV, and a page with diagrams, power trace and tables.
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

// The CSV that docs/formats/footprint.md describes, beside the JSON (account/footprint_file.h).
[[nodiscard]] std::string footprint_csv(const Footprint& footprint);

// A row of the table of devices: joules with so many decimals, then seconds.
[[nodiscard]] std::vector<std::string> device_cells(const Footprint& footprint, const FootprintDevice& device,
                                                    int decimals);

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
