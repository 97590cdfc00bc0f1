// Hands jobs to Slurm by sbatch. Slurm's slurmctld answers sbatch before it has saved the job, and one that dies within
// the next seconds forgets it; who needs the job to be there may wait until it is saved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

struct SlurmSubmission {
  std::vector<std::string> sbatch;  // sbatch's own options, the script and its arguments
  std::string comment;
  bool held = true;  // for the controller
};

// Returns the job's number. Throws CommandFailure where sbatch fails, or has not answered in 10 s: the job may then be
// there nevertheless.
[[nodiscard]] std::int64_t submit_to_slurm(const SlurmSubmission& job);

struct SavedSubmissionOptions {
  // A job that Slurm still knows that long after it took it has been saved. slurmctld saves at most 5 s late
  // (SAVE_MAX_WAIT of its sources), and writes for some time.
  Seconds saved_after{15.0};
  Seconds period{3.0};                           // between two looks
  std::function<void(const std::string&)> tell;  // that Slurm is away, or had forgotten the job: one line
};

// The same, and waits until the job is saved; submits it again where Slurm has forgotten it. Waits as long as Slurm
// does not answer. The job is told from others by a random word in its comment, so that it is not submitted twice where
// an answer was lost. Throws CommandFailure where Slurm refuses the job.
[[nodiscard]] std::int64_t submit_until_saved(const SlurmSubmission& job, const SavedSubmissionOptions& options);

}  // namespace flyball
