// What `flyball account`, `account diff` and `account quality` print and write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "account/energy_tree.h"
#include "account/footprint.h"
#include "account/self_similar.h"
#include "report/footprint_report.h"

namespace flyball {

// Tables for people.
[[nodiscard]] std::string footprint_text(const Footprint& footprint, const FootprintNotes& notes, std::size_t top);
[[nodiscard]] std::string comparison_text(const FootprintComparison& comparison, std::size_t top);
[[nodiscard]] std::string comparison_json(const FootprintComparison& comparison);

// One diagram, laid out by Graphviz; where `path` ends in .dot, what it is given. Throws UsageError where there is no
// such module, SystemError without Graphviz.
void write_diagram_svg(const EnergyTree& tree, const std::string& module, const std::string& path);

// Smaragdine 5.4.
struct QualityFigures {
  struct Sparsing {
    std::size_t keep = 1;     // every keep-th reading
    double similarity = 0.0;  // to the footprint of all readings; mean over the runs
  };
  std::vector<std::string> runs;
  RunQuality quality;
  std::vector<Sparsing> sparsing;  // empty where no run is a folder
};

// Each run is a footprint's JSON or a folder with its traces.
[[nodiscard]] QualityFigures measure_quality(const std::vector<std::string>& runs, const SelfSimilar& similar);
[[nodiscard]] std::string quality_text(const QualityFigures& figures);
[[nodiscard]] std::string quality_json(const QualityFigures& figures);

}  // namespace flyball
