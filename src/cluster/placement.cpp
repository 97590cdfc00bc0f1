// Buddy allocation within nodes (kPacked), and placement on the fullest node that fits (kAnywhere).
#include "cluster/placement.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/error.h"
#include "base/index.h"

namespace flyball {
namespace {

constexpr std::uint64_t bits(int first, int count) {
  return (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << first;
}

}  // namespace

Placement::Placement(PlacementRule rule, int nodes, int gpus_per_node)
    : rule_(rule), gpus_per_node_(gpus_per_node), free_gpus_(nodes * gpus_per_node) {
  if (nodes < 1 || gpus_per_node < 1 || gpus_per_node > 64 ||
      !std::has_single_bit(static_cast<unsigned>(gpus_per_node))) {
    throw Error("a cluster has at least one node, and each a power of two of GPUs, at most 64");
  }
  used_.resize(at(nodes));
  powered_.resize(at(nodes), true);
  away_.resize(at(nodes));
  jobs_on_.resize(at(nodes));
  free_blocks_.resize(level_of(gpus_per_node));
  nodes_by_free_.resize(at(gpus_per_node) + 1);
  for (int node = 0; node < nodes; ++node) whole_on_.insert(whole_on_.end(), node);
}

std::size_t Placement::level_of(int gpus) const { return at(std::countr_zero(static_cast<unsigned>(gpus))); }

int Placement::used_on(int node) const { return std::popcount(used_[at(node)]); }

std::span<const GpuBlock> Placement::blocks(int job) const {
  if (at(job) >= blocks_.size()) return {};
  return blocks_[at(job)];
}

int Placement::nodes_of(int job) const {
  int nodes = 0;
  int last = -1;
  for (const GpuBlock& block : blocks(job)) {
    if (block.node != last) ++nodes;
    last = block.node;
  }
  return nodes;
}

void Placement::set_powered(int node, bool on) {
  if (powered_[at(node)] == on) return;
  powered_[at(node)] = on;
  if (used_[at(node)] != 0 || away_[at(node)]) return;
  (on ? whole_off_ : whole_on_).erase(node);
  (on ? whole_on_ : whole_off_).insert(node);
}

void Placement::set_away(int node, bool away) {
  assert(used_[at(node)] == 0);
  if (away_[at(node)] == away) return;
  away_[at(node)] = away;
  std::set<int>& whole = powered_[at(node)] ? whole_on_ : whole_off_;
  if (away) {
    whole.erase(node);
    free_gpus_ -= gpus_per_node_;
  } else {
    whole.insert(node);
    free_gpus_ += gpus_per_node_;
  }
}

bool Placement::place(int job, int gpus) {
  assert(gpus > 0 && blocks(job).empty());
  if (gpus > free_gpus_) return false;
  if (at(job) >= blocks_.size()) blocks_.resize(at(job) + 1);
  return rule_ == PlacementRule::kPacked ? place_packed(job, gpus) : place_anywhere(job, gpus);
}

// Removes a node from the set of free nodes and returns it.
int Placement::take_whole_node() {
  std::set<int>& from = whole_on_.empty() ? whole_off_ : whole_on_;
  const int node = *from.begin();
  from.erase(from.begin());
  return node;
}

void Placement::give(int job, GpuBlock block) {
  used_[at(block.node)] |= bits(block.first, block.count);
  free_gpus_ -= block.count;
  blocks_[at(job)].push_back(block);
  if (rule_ == PlacementRule::kPacked) jobs_on_[at(block.node)].push_back(job);
}

bool Placement::place_packed(int job, int gpus) {
  assert(std::has_single_bit(static_cast<unsigned>(gpus)));
  if (gpus >= gpus_per_node_) {
    const int nodes = gpus / gpus_per_node_;
    if (whole_on_.size() + whole_off_.size() < at(nodes)) return false;
    for (int i = 0; i < nodes; ++i) give(job, {take_whole_node(), 0, gpus_per_node_});
    // Each set is sorted and nodes that are on come first, so that the blocks as a whole may be out of order.
    std::sort(blocks_[at(job)].begin(), blocks_[at(job)].end(),
              [](const GpuBlock& a, const GpuBlock& b) { return a.node < b.node; });
    return true;
  }
  const std::optional<GpuBlock> block = take_block(level_of(gpus));
  if (!block) return false;
  give(job, *block);
  return true;
}

// Takes the smallest free block of at least 2^level GPUs, split down to that size.
std::optional<GpuBlock> Placement::take_block(std::size_t level) {
  std::size_t from = level;
  while (from < free_blocks_.size() && free_blocks_[from].empty()) ++from;
  if (from < free_blocks_.size()) {
    const auto first = free_blocks_[from].begin();
    const GpuBlock block{first->first, first->second, 1 << from};
    free_blocks_[from].erase(first);
    return split(block, level);
  }
  if (whole_on_.empty() && whole_off_.empty()) return std::nullopt;
  return split({take_whole_node(), 0, gpus_per_node_}, level);
}

// As take_block(), of one node.
std::optional<GpuBlock> Placement::take_block_of(int node, std::size_t level) {
  for (std::size_t from = level; from < free_blocks_.size(); ++from) {
    const auto first = free_blocks_[from].lower_bound({node, 0});
    if (first == free_blocks_[from].end() || first->first != node) continue;
    const GpuBlock block{node, first->second, 1 << from};
    free_blocks_[from].erase(first);
    return split(block, level);
  }
  if (whole_on_.erase(node) + whole_off_.erase(node) == 0) return std::nullopt;
  return split({node, 0, gpus_per_node_}, level);
}

// Returns the first 2^level GPUs of a block that was taken, and leaves the rest of it free.
GpuBlock Placement::split(GpuBlock block, std::size_t level) {
  for (std::size_t from = level_of(block.count); from > level;) {
    --from;
    free_blocks_[from].emplace(block.node, block.first + (1 << from));
  }
  block.count = 1 << level;
  return block;
}

bool Placement::place_on(int job, std::span<const int> nodes, int gpus) {
  assert(rule_ == PlacementRule::kPacked && blocks(job).empty());
  if (gpus < 1 || gpus > gpus_per_node_ || !std::has_single_bit(static_cast<unsigned>(gpus))) return false;
  if (nodes.empty() || (nodes.size() > 1 && gpus < gpus_per_node_)) return false;
  if (at(job) >= blocks_.size()) blocks_.resize(at(job) + 1);
  for (const int node : nodes) {
    if (const std::optional<GpuBlock> block = take_block_of(node, level_of(gpus))) {
      give(job, *block);
    } else {
      release(job);
      return false;
    }
  }
  return true;
}

// Frees the block, and joins it with its buddy as long as that is free too.
void Placement::return_block(GpuBlock block) {
  std::size_t level = level_of(block.count);
  while (level < free_blocks_.size()) {
    const auto buddy = free_blocks_[level].find({block.node, block.first ^ (1 << level)});
    if (buddy == free_blocks_[level].end()) break;
    free_blocks_[level].erase(buddy);
    block.first &= ~(1 << level);
    ++level;
  }
  if (level < free_blocks_.size()) {
    free_blocks_[level].emplace(block.node, block.first);
  } else {
    (powered_[at(block.node)] ? whole_on_ : whole_off_).insert(block.node);
  }
}

void Placement::share(int job, int with) {
  if (rule_ != PlacementRule::kAnywhere || job == with || blocks(with).empty() || !blocks(job).empty() ||
      partners_.count(with) != 0) {
    throw Error("GPUs are shared by two jobs, and only where no jobs are moved to join free ones");
  }
  if (at(job) >= blocks_.size()) blocks_.resize(at(job) + 1);
  blocks_[at(job)] = blocks_[at(with)];
  partners_[job] = with;
  partners_[with] = job;
}

void Placement::release(int job) {
  if (at(job) >= blocks_.size()) return;
  if (const auto shared = partners_.find(job); shared != partners_.end()) {
    blocks_[at(job)].clear();
    partners_.erase(shared->second);
    partners_.erase(shared);
    return;
  }
  for (const GpuBlock& block : blocks_[at(job)]) {
    used_[at(block.node)] &= ~bits(block.first, block.count);
    free_gpus_ += block.count;
    if (rule_ == PlacementRule::kPacked) {
      std::erase(jobs_on_[at(block.node)], job);
      return_block(block);
    } else {
      refile(block.node);
    }
  }
  blocks_[at(job)].clear();
}

std::vector<int> Placement::compact() {
  std::vector<int> moved;
  for (std::size_t level = 0; level < free_blocks_.size(); ++level) {
    while (free_blocks_[level].size() > 1) {
      // The last free block will grow: what lies in its buddy is moved into the first free block. A buddy of a free
      // block has jobs in it (if it were free, the two would be one block), and only whole ones, since jobs' blocks
      // nest.
      const auto [node, first] = *std::prev(free_blocks_[level].end());
      const auto [to_node, to_first] = *free_blocks_[level].begin();
      free_blocks_[level].erase(free_blocks_[level].begin());
      const int size = 1 << level;
      const int buddy = first ^ size;
      // Jobs and free blocks, which are smaller, keep their offsets within the buddy.
      std::vector<int> here = jobs_on_[at(node)];
      for (const int job : here) {
        GpuBlock& block = blocks_[at(job)].front();
        if (block.first < buddy || block.first >= buddy + size) continue;
        used_[at(node)] &= ~bits(block.first, block.count);
        std::erase(jobs_on_[at(node)], job);
        block.first += to_first - buddy;
        block.node = to_node;
        used_[at(to_node)] |= bits(block.first, block.count);
        jobs_on_[at(to_node)].push_back(job);
        moved.push_back(job);
      }
      for (std::size_t lower = 0; lower < level; ++lower) {
        const auto begin = free_blocks_[lower].lower_bound({node, buddy});
        const auto end = free_blocks_[lower].lower_bound({node, buddy + size});
        const std::vector<std::pair<int, int>> inside(begin, end);
        free_blocks_[lower].erase(begin, end);
        for (const auto& [from_node, offset] : inside) {
          free_blocks_[lower].emplace(to_node, offset + to_first - buddy);
        }
      }
      return_block({node, buddy, size});
    }
  }
  std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  return moved;
}

bool Placement::fits_closer(int job) {
  const int before = nodes_of(job);
  if (rule_ != PlacementRule::kAnywhere || before < 2 || partners_.count(job) != 0) return false;
  const std::vector<GpuBlock> here = blocks_[at(job)];
  int gpus = 0;
  for (const GpuBlock& block : here) gpus += block.count;
  release(job);
  const bool placed = place(job, gpus);
  const int after = nodes_of(job);
  release(job);
  for (const GpuBlock& block : here) {
    give(job, block);
    refile(block.node);
  }
  assert(placed);
  return placed && after < before;
}

void Placement::refile(int node) {
  // A node is in exactly one set. Since it is not known in which one it was, all that are possible are searched.
  const int free = gpus_per_node_ - used_on(node);
  for (std::set<int>& nodes : nodes_by_free_) nodes.erase(node);
  whole_on_.erase(node);
  whole_off_.erase(node);
  if (free == gpus_per_node_) {
    (powered_[at(node)] ? whole_on_ : whole_off_).insert(node);
  } else if (free > 0) {
    nodes_by_free_[at(free)].insert(node);
  }
}

// Takes the lowest free GPUs of the node, as blocks of neighbours.
void Placement::take_from_node(int job, int node, int gpus) {
  int first = 0;
  while (gpus > 0) {
    while ((used_[at(node)] >> first & 1) != 0) ++first;
    int count = 0;
    while (count < gpus && first + count < gpus_per_node_ && (used_[at(node)] >> (first + count) & 1) == 0) ++count;
    give(job, {node, first, count});
    first += count;
    gpus -= count;
  }
  refile(node);
}

bool Placement::place_anywhere(int job, int gpus) {
  if (gpus <= gpus_per_node_) {
    for (std::size_t free = at(gpus); free < nodes_by_free_.size(); ++free) {
      if (nodes_by_free_[free].empty()) continue;
      take_from_node(job, *nodes_by_free_[free].begin(), gpus);
      return true;
    }
    if (!whole_on_.empty() || !whole_off_.empty()) {
      take_from_node(job, take_whole_node(), gpus);
      return true;
    }
  }
  // On several nodes: whole nodes first, then those with most free GPUs.
  while (gpus >= gpus_per_node_ && !(whole_on_.empty() && whole_off_.empty())) {
    take_from_node(job, take_whole_node(), gpus_per_node_);
    gpus -= gpus_per_node_;
  }
  while (gpus > 0) {
    if (gpus < gpus_per_node_) {
      // The rest may fit on one node.
      const auto fits = std::find_if(nodes_by_free_.begin() + gpus, nodes_by_free_.end(),
                                     [](const std::set<int>& nodes) { return !nodes.empty(); });
      if (fits != nodes_by_free_.end()) {
        take_from_node(job, *fits->begin(), gpus);
        break;
      }
      if (!(whole_on_.empty() && whole_off_.empty())) {
        take_from_node(job, take_whole_node(), gpus);
        break;
      }
    }
    const auto most = std::find_if(nodes_by_free_.rbegin(), nodes_by_free_.rend(),
                                   [](const std::set<int>& nodes) { return !nodes.empty(); });
    const int node = *most->begin();
    const int count = std::min(gpus, gpus_per_node_ - used_on(node));
    take_from_node(job, node, count);
    gpus -= count;
  }
  std::sort(blocks_[at(job)].begin(), blocks_[at(job)].end(), [](const GpuBlock& a, const GpuBlock& b) {
    return a.node != b.node ? a.node < b.node : a.first < b.first;
  });
  return true;
}

}  // namespace flyball
