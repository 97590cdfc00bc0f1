// Which GPUs a job gets. Nodes are alike and hold a power of two of GPUs, at most 64.
//
// kPacked is network packing with buddy allocation (PowerFlow 5.3): a job has a power of two of GPUs; one smaller than
// a node lies in one aligned block of it, a larger one has whole nodes to itself, so that no two jobs of several nodes
// meet on one. After compact() at most one block of each size below a node's is free in the whole cluster: two free
// blocks of one size are joined by moving what lies beside one of them into the other. What is free on partly used
// nodes is then a sum of distinct powers of two, less than one node; hence every size that is at most the number of
// free GPUs fits, and as few nodes are in use as the jobs' sizes allow.
//
// kAnywhere takes any number of GPUs from as few nodes as it finds, as schedulers do that do not migrate: one node if
// any holds the job (the fullest such), else the emptiest nodes first. It never fails while enough GPUs are free, and
// fragments.
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

struct GpuBlock {
  int node = 0;
  int first = 0;  // GPU within the node
  int count = 0;

  bool operator==(const GpuBlock&) const = default;
};

// Jobs are numbered from 0. Not thread-safe.
class Placement {
 public:
  // Throws Error unless `gpus_per_node` is a power of two up to 64 and `nodes` is at least 1.
  Placement(PlacementRule rule, int nodes, int gpus_per_node);

  // False, and nothing changed, where the GPUs are not to be had: too few free, or (kPacked) no block of that size.
  // A node that is on is taken before one that is off, then the smallest block, then the first. The job must not have
  // GPUs already; kPacked asks for a power of two. Cost O((log nodes + log gpus) * nodes of the job); kAnywhere adds
  // O(nodes) for a job that fits on no single node.
  [[nodiscard]] bool place(int job, int gpus);

  // The job has the same GPUs as another, which has them alone. kAnywhere only; throws Error otherwise.
  void share(int job, int with);

  // A job that shares its GPUs leaves them to the other.
  void release(int job);

  // Gives a job just these blocks, which must be free and of the rule's shape: to go on from a snapshot.
  // False, and nothing changed, where they are not.
  [[nodiscard]] bool put(int job, std::span<const GpuBlock> blocks);

  // kPacked only: moves jobs until at most one block of each size below a node's is free. The jobs that moved, each
  // once, rising. At most log2(gpus_per_node) merges for each release before it.
  [[nodiscard]] std::vector<int> compact();

  // kAnywhere only: whether the job, which has its GPUs alone, would lie on fewer nodes if it were placed anew.
  // O(nodes).
  [[nodiscard]] bool fits_closer(int job);

  // Empty for a job without GPUs.
  [[nodiscard]] std::span<const GpuBlock> blocks(int job) const;
  [[nodiscard]] int nodes_of(int job) const;

  [[nodiscard]] int nodes() const { return static_cast<int>(used_.size()); }
  [[nodiscard]] int gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] int free_gpus() const { return free_gpus_; }
  [[nodiscard]] int used_on(int node) const;

  // Whether a node is on is for the caller to say; it steers which free node is taken first.
  void set_powered(int node, bool on);

 private:
  using BlockSet = std::set<std::pair<int, int>>;  // node, first GPU

  [[nodiscard]] std::size_t level_of(int gpus) const;
  [[nodiscard]] bool place_packed(int job, int gpus);
  [[nodiscard]] bool place_anywhere(int job, int gpus);
  [[nodiscard]] int take_whole_node();
  [[nodiscard]] std::optional<GpuBlock> take_block(std::size_t level);
  void return_block(GpuBlock block);
  void carve(GpuBlock block);
  void give(int job, GpuBlock block);
  void take_from_node(int job, int node, int gpus);
  void refile(int node);

  PlacementRule rule_;
  int gpus_per_node_;
  int free_gpus_;
  std::vector<std::uint64_t> used_;  // by node: a bit per GPU
  std::vector<bool> powered_;
  std::set<int> whole_on_;  // nodes without jobs, by whether they are on
  std::set<int> whole_off_;
  std::vector<BlockSet> free_blocks_;          // kPacked: by level (2^level GPUs), below a whole node
  std::vector<std::set<int>> nodes_by_free_;   // kAnywhere: partly used nodes, by free GPUs
  std::vector<std::vector<GpuBlock>> blocks_;  // by job
  std::vector<std::vector<int>> jobs_on_;      // by node
  std::map<int, int> partners_;                // of jobs that share their GPUs, both ways
};

}  // namespace flyball
