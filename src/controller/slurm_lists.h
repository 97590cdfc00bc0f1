// What Slurm's own commands print of jobs and nodes, read as what a cluster engine tells. Tried with Slurm 22.05; the
// numbers and states of later versions, which are objects and lists, are read, too.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controller/cluster_engine.h"

namespace flyball {

// Reads `squeue --json` and `sinfo --json`. Texts are made fit to be shown (base/printable.h): bytes that are not
// UTF-8, as users may have named things, are replaced. An entry that cannot be read is added to `odd` and left out;
// without `odd` it is an InputError, as is a text that is no JSON of that kind.
//
// The list of a thousand jobs has megabytes, and is read every second. An object keeps the memory that this takes, some
// 13 bytes for each of the longest text, since getting it anew would take longer than reading. A text with 64 bytes of
// spare capacity is read where it is, another one copied. Not thread-safe.
class SlurmLists {
 public:
  SlurmLists();
  ~SlurmLists();

  [[nodiscard]] std::vector<EngineJob> jobs(const std::string& text, std::vector<OddEntry>* odd = nullptr);
  [[nodiscard]] std::vector<EngineNode> nodes(const std::string& text, std::vector<OddEntry>* odd = nullptr);

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

// Returns the names that a list of Slurm's stands for: "n[01-03,7],m1" is n01, n02, n03, n7, m1. Throws InputError.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view text);

}  // namespace flyball
