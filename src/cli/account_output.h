// What `flyball account`, `account diff` and `account quality` print and write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "account/account_run.h"
#include "account/energy_tree.h"
#include "account/footprint.h"
#include "report/footprint_report.h"

namespace flyball {

// Both functions return tables for people.
[[nodiscard]] std::string footprint_text(const Footprint& footprint, const FootprintNotes& notes, std::size_t top);
[[nodiscard]] std::string comparison_text(const FootprintComparison& comparison, std::size_t top);
[[nodiscard]] std::string comparison_json(const FootprintComparison& comparison);

// Writes the diagram of one module, laid out by Graphviz; where `path` ends in .dot, the text that Graphviz would be
// given. Throws UsageError where the model has no such module, and SystemError where Graphviz is not installed.
void write_diagram_svg(const EnergyTree& tree, const std::string& module, const std::string& path);

[[nodiscard]] std::string quality_text(const QualityFigures& figures);
[[nodiscard]] std::string quality_json(const QualityFigures& figures);

}  // namespace flyball
