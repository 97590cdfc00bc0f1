// Shows a footprint to people: as CSV, and as a page with diagrams, power trace and tables.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "account/account_run.h"
#include "account/activity.h"
#include "account/energy_tree.h"
#include "account/footprint.h"
#include "draw/svg_canvas.h"

namespace flyball {

// Returns the footprint as the CSV that docs/formats/footprint.md describes. account/footprint_file.h writes its JSON.
[[nodiscard]] std::string footprint_csv(const Footprint& footprint);

// Returns a row of the table of devices: joules with `decimals` decimals, then seconds.
[[nodiscard]] std::vector<std::string> device_cells(const Footprint& footprint, const FootprintDevice& device,
                                                    int decimals);

// Draws the power of the devices over time, and when each part of the model was active. `width` is in pixels.
[[nodiscard]] SvgCanvas power_picture_canvas(const PowerPicture& picture, double width);

// What the page shows. `footprint`, `summary` and `tree` must be set, and what they point to must outlive the page.
struct FootprintPage {
  std::string title;
  const Footprint* footprint = nullptr;
  const Footprint* summary = nullptr;  // joins parts of the model that are alike
  const EnergyTree* tree = nullptr;
  std::optional<PowerPicture> power;
  FootprintNotes notes;
  std::vector<std::string> commands;
  std::size_t top = 30;  // rows of the tables
};
// Returns the page of a result that has a summary, a tree and a picture, and must outlive it.
[[nodiscard]] FootprintPage footprint_page(std::string title, const AccountResult& result);
[[nodiscard]] std::string footprint_html(const FootprintPage& page);

}  // namespace flyball
