// A model whose operations have the joules that a test says.
#pragma once

#include <string>

#include "account/energy_tree.h"

namespace flyball::testing {

struct Model {
  OperationTable operations;
  Footprint footprint;

  // On GPU:0, for a second.
  OperationId add(const std::string& name, double joules, Phase phase = Phase::kForward) {
    FootprintRow& row = footprint.rows.emplace_back();
    row.name = name;
    row.device = "GPU:0";
    row.phase = phase;
    row.energy = Joules(joules);
    row.busy = Seconds(1);
    return operations.intern(name, phase);
  }

  [[nodiscard]] EnergyTree tree() const { return make_energy_tree(footprint, operations); }
};

}  // namespace flyball::testing
