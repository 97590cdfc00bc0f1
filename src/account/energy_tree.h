// Nested energy distribution diagrams (Smaragdine definition 3.2): a footprint added up along the hierarchy of its
// names. Every composite layer is a diagram of its parts, each with its energy, joined by the dataflow between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "base/units.h"
#include "trace/operation_table.h"

namespace flyball {

inline constexpr std::size_t kPhases = 4;

struct EnergyNode {
  std::string name;  // the last part of the path
  std::string path;  // "" at the root
  std::size_t parent = 0;
  std::vector<std::size_t> children;   // most energy first
  std::array<Joules, kPhases> energy;  // with everything below, by Phase
  Seconds busy;                        // summed over everything below
  int rank = 0;                        // row in its parent's diagram: after all that feed it, with cycles cut

  [[nodiscard]] Joules total() const { return energy[0] + energy[1] + energy[2] + energy[3]; }
};

// An edge between two parts of one diagram.
struct EnergyEdge {
  std::size_t parent = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  std::uint8_t phases = 0;  // bit i: some operation of Phase i
  EdgeKind kind = EdgeKind::kData;
};

struct EnergyTree {
  std::vector<EnergyNode> nodes;  // nodes[0] is the root, the whole model
  std::vector<EnergyEdge> edges;

  // Returns the node with this path; nodes.size() where there is none.
  [[nodiscard]] std::size_t find(std::string_view path) const;
};

// Makes the tree. An edge between two operations becomes one between the two parts in which their names first differ;
// the parts of a diagram without known dataflow are joined in the order in which they first ran (kOrder). A name that
// is also the beginning of another's ("dense" beside "dense/MatMul") keeps its own energy in a part called "(self)".
[[nodiscard]] EnergyTree make_energy_tree(const Footprint& footprint, const OperationTable& operations);

// What one sentence about a model should name: a part, or its backward pass alone.
struct TopPart {
  std::size_t node = 0;
  bool backward = false;
  Joules energy;
};

// Returns the part with the most energy of those that the model is first divided into. Where that is a function of
// PyTorch's autograd, whose name says nothing about the model, returns the backward pass of the part that holds it.
[[nodiscard]] TopPart top_part(const EnergyTree& tree);

// Returns at most `most` parts that together show most of the model: the part with the most energy is divided as long
// as there is room, down to parts that hold tensors. Parts with less than 2 % of the model are left out.
[[nodiscard]] std::vector<std::size_t> telling_parts(const EnergyTree& tree, std::size_t most);

}  // namespace flyball
