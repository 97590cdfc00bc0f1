// A RUN.toml to begin with: what was measured stands in it, the rest is guessed, and every line that holds a guess is
// marked CHANGE. Every stage has a comment that says what is meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flyball {

// Files; without any, all of it is a guess.
struct DraftSources {
  std::vector<std::string> traces;     // of PyTorch's profiler, of a rank each: the times of a step's stages
  std::optional<std::string> profile;  // of a pipeline: forward and backward of each stage at its highest clock
  int microbatches = 1;                // with a profile: forwards of a stage in one iteration
  std::optional<std::string> power;    // a power trace: the components' active and idle power
  int nodes = 1;                       // of each type; as many as traces are the least
};

// Seconds and watts, in the syntax of docs/formats/run.md. Of fewer traces than ranks, or more nodes than traces, the
// comments say what is uncertain. Throws InputError for what its files are not, or do not show. Cost: linear in the
// files. Precondition: not both traces and a profile.
[[nodiscard]] std::string draft_run(const DraftSources& sources);

}  // namespace flyball
