// Drafts a RUN.toml for the user to edit. Measured values stand in it as they are; all others are guesses, and every
// line that holds a guess is marked CHANGE. A comment says what each stage is.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flyball {

// The files from which values are taken. Without any file, the whole draft is a guess.
struct DraftSources {
  std::vector<std::string> traces;     // of PyTorch's profiler, one per rank: give the times of a step's stages
  std::optional<std::string> profile;  // of a pipeline: gives each stage's forward and backward at its highest clock
  int microbatches = 1;                // with a profile: forwards of a stage in one iteration
  std::optional<std::string> power;    // a power trace: gives the components' active and idle power
  int nodes = 1;                       // of each type; no fewer than there are traces
};

// Returns the text of the draft, in seconds and watts and in the syntax of docs/formats/run.md. Where there are fewer
// traces than ranks, or more nodes than traces, its comments say what is uncertain. Throws InputError for a file of
// another kind, or one that does not show what it should. Traces and a profile must not both be given. Cost: linear in
// the files.
[[nodiscard]] std::string draft_run(const DraftSources& sources);

}  // namespace flyball
