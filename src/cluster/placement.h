// Decides which GPUs a job gets. All nodes have the same number of GPUs, a power of two of at most 64.
//
// kPacked is network packing with buddy allocation (PowerFlow 5.3). A job has a power of two of GPUs. A job smaller
// than a node lies in one aligned block of it; a larger job has whole nodes to itself, so that jobs on several nodes
// never share one. compact() leaves at most one free block of each size below a node's in the whole cluster: where two
// blocks of one size are free, it moves the jobs that lie beside the first into the second, so that the first and the
// space beside it make up one larger free block. The free GPUs of partly used nodes are then a sum of distinct powers
// of two that is less than a node. Hence every size up to the number of free GPUs fits, and as few nodes are in use as
// the jobs' sizes allow.
//
// kAnywhere takes any number of GPUs from as few nodes as it finds, like schedulers that do not migrate: from the
// fullest node that can hold the whole job, or else from the emptiest nodes first. It never fails while enough GPUs are
// free, but jobs come to lie scattered over nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace flyball {

enum class PlacementRule { kPacked, kAnywhere };

// Consecutive GPUs of one node.
struct GpuBlock {
  int node = 0;
  int first = 0;  // index of a GPU within the node
  int count = 0;

  bool operator==(const GpuBlock&) const = default;
};

// Keeps track of the GPUs of all jobs, which are numbered from 0. Not thread-safe.
class Placement {
 public:
  // Throws Error unless `gpus_per_node` is a power of two up to 64 and `nodes` is at least 1.
  Placement(PlacementRule rule, int nodes, int gpus_per_node);

  // Places a job that has no GPUs; kPacked requires a power of two. Returns false, with nothing changed, if too few
  // GPUs are free or (kPacked) no block of that size is. Nodes that are on are preferred, then smaller blocks, then
  // lower indices. Cost: O((log nodes + log gpus) * nodes of the job); kAnywhere adds O(nodes) for a job that fits on
  // no single node.
  [[nodiscard]] bool place(int job, int gpus);

  // Only for kPacked: places a job that has no GPUs where it already runs: on `gpus` of each of these nodes, which are
  // all of a node's GPUs where there are several nodes. Which GPUs of a node it is given is not said. Returns false,
  // with nothing changed, where that is no packed place or it is not free. Cost: O(log(nodes * gpus)) for each node.
  [[nodiscard]] bool place_on(int job, std::span<const int> nodes, int gpus);

  // Gives the job the same GPUs as another job that has them alone. Only for kAnywhere; throws Error otherwise.
  void share(int job, int with);

  // Takes the job's GPUs away. If it shares them, the other job keeps them.
  void release(int job);

  // Only for kPacked: moves jobs until at most one block of each size below a node's is free. Returns the jobs that
  // moved, each once, rising. It merges blocks at most log2(gpus_per_node) times for each release() before it.
  [[nodiscard]] std::vector<int> compact();

  // Only for kAnywhere: tells whether the job, which must have its GPUs alone, would lie on fewer nodes if it were
  // placed again. Cost: O(nodes).
  [[nodiscard]] bool fits_closer(int job);

  // The blocks of a job; there are none if it has no GPUs. Valid until a function that is not const is called.
  [[nodiscard]] std::span<const GpuBlock> blocks(int job) const;
  [[nodiscard]] int nodes_of(int job) const;

  [[nodiscard]] int nodes() const { return static_cast<int>(used_.size()); }
  [[nodiscard]] int gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] int free_gpus() const { return free_gpus_; }
  [[nodiscard]] int used_on(int node) const;
  [[nodiscard]] bool is_used(int node, int gpu) const {
    return (used_[static_cast<std::size_t>(node)] >> gpu & 1) != 0;
  }
  [[nodiscard]] bool is_on(int node) const { return powered_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] bool is_away(int node) const { return away_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] int empty_nodes_on() const { return static_cast<int>(whole_on_.size()); }

  // Sets whether a node is on. Free nodes that are on are taken first.
  void set_powered(int node, bool on);

  // Takes a node without jobs out of use, or puts it back.
  void set_away(int node, bool away);

 private:
  using BlockSet = std::set<std::pair<int, int>>;  // node, first GPU

  [[nodiscard]] std::size_t level_of(int gpus) const;
  [[nodiscard]] bool place_packed(int job, int gpus);
  [[nodiscard]] bool place_anywhere(int job, int gpus);
  [[nodiscard]] int take_whole_node();
  [[nodiscard]] std::optional<GpuBlock> take_block(std::size_t level);
  [[nodiscard]] std::optional<GpuBlock> take_block_of(int node, std::size_t level);
  [[nodiscard]] GpuBlock split(GpuBlock block, std::size_t level);
  void return_block(GpuBlock block);
  void give(int job, GpuBlock block);
  void take_from_node(int job, int node, int gpus);
  void refile(int node);

  PlacementRule rule_;
  int gpus_per_node_;
  int free_gpus_;
  std::vector<std::uint64_t> used_;  // by node, one bit per GPU
  std::vector<bool> powered_;
  std::vector<bool> away_;
  std::set<int> whole_on_;  // nodes in use without jobs, by whether they are on
  std::set<int> whole_off_;
  std::vector<BlockSet> free_blocks_;          // kPacked: by level (2^level GPUs), below a whole node
  std::vector<std::set<int>> nodes_by_free_;   // kAnywhere: partly used nodes, by free GPUs
  std::vector<std::vector<GpuBlock>> blocks_;  // by job
  std::vector<std::vector<int>> jobs_on_;      // kPacked: by node
  std::map<int, int> partners_;                // of jobs that share their GPUs, both ways
};

}  // namespace flyball
