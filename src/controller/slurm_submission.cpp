// The job is looked for with squeue's own format, which all versions print alike, among the jobs of its user only.
#include "controller/slurm_submission.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <thread>

#include "base/monotonic_time.h"
#include "base/random_digits.h"
#include "base/text.h"
#include "controller/command_output.h"
#include "controller/elastic_option.h"

namespace flyball {
namespace {

constexpr Seconds kLimit{10.0};         // of a command
constexpr Seconds kPatientLimit{60.0};  // of sbatch, which itself waits for a slurmctld that is starting
constexpr int kMostRefusals = 2;        // in a row by a Slurm that answers: it may have come back between two commands

constexpr std::size_t kMarkDigits = 16;
constexpr std::string_view kEnds[] = {"COMPLETED", "CANCELLED", "FAILED",   "TIMEOUT", "OUT_OF_MEMORY",
                                      "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED"};

std::int64_t submit(const SlurmSubmission& job, Seconds limit) {
  std::vector<std::string> words = {"sbatch", "--parsable"};
  if (job.held) words.insert(words.end(), {"--hold", "--requeue"});
  words.push_back("--comment=" + job.comment + (job.held ? fmt::format(";{}", kHeldForUs) : ""));
  words.insert(words.end(), job.sbatch.begin(), job.sbatch.end());
  const std::string said = command_output(words, limit);
  const auto id = parse_integer(std::string_view(said).substr(0, said.find_first_of(";\n")));
  if (!id) throw CommandFailure(fmt::format("sbatch said '{}' and no job's number", trim(said, " \n")));
  return *id;
}

struct SeenJob {
  std::int64_t id = 0;
  bool has_ended = false;
};

// Returns the job whose comment has the mark, if Slurm knows it. Lines are "NUMBER|STATE|COMMENT".
std::optional<SeenJob> find_marked(std::string_view jobs, std::string_view mark) {
  for (const std::string_view line : split_at('\n', jobs)) {
    if (line.find(mark) == std::string_view::npos) continue;
    const std::size_t bar = line.find('|');
    // An array's number is "12_[0-3]".
    const auto id = parse_integer(line.substr(0, line.find_first_of("_|")));
    if (!id || bar == std::string_view::npos) continue;
    const std::string_view state = line.substr(bar + 1, line.find('|', bar + 1) - bar - 1);
    return SeenJob{*id, std::ranges::find(kEnds, state) != std::end(kEnds)};
  }
  return {};
}

class Waiter {
 public:
  Waiter(std::string mark, const SavedSubmissionOptions& options) : mark_(std::move(mark)), options_(options) {}

  // Looks for the job, as often as it takes until Slurm answers.
  std::optional<SeenJob> look() {
    answered_at_once_ = true;
    for (;; pause()) {
      try {
        return find_marked(command_output({"squeue", "--noheader", "--states=all", "--array",
                                           fmt::format("--user={}", ::getuid()), "--format=%i|%T|%k"},
                                          kLimit),
                           mark_);
      } catch (const CommandFailure& failure) {
        if (answered_at_once_) tell(fmt::format("Slurm does not answer, waiting for it: {}", failure.what()));
        answered_at_once_ = false;
      }
    }
  }
  [[nodiscard]] bool answered_at_once() const { return answered_at_once_; }

  // Returns whether Slurm still knows the job when it must have saved it.
  bool is_saved(const SeenJob& first) {
    const Nanoseconds end = monotonic_now() + to_nanoseconds(options_.saved_after);
    std::optional<SeenJob> seen = first;
    while (seen && monotonic_now() < end) {
      // Slurm may forget a job soon after its end (MinJobAge).
      if (seen->has_ended) return true;
      pause();
      seen = look();
    }
    return seen.has_value();
  }

  void tell(const std::string& words) const {
    if (options_.tell) options_.tell(words);
  }

 private:
  void pause() const { std::this_thread::sleep_for(duration_of(options_.period)); }

  std::string mark_;
  const SavedSubmissionOptions& options_;
  bool answered_at_once_ = true;
};

}  // namespace

std::int64_t submit_to_slurm(const SlurmSubmission& job) { return submit(job, kLimit); }

std::int64_t submit_until_saved(const SlurmSubmission& job, const SavedSubmissionOptions& options) {
  const std::string mark = "flyball:mark=" + random_digits(kMarkDigits);
  SlurmSubmission marked = job;
  marked.comment += ";" + mark;
  Waiter waiter(mark, options);
  for (int refusals = 0;;) {
    std::optional<SeenJob> seen;
    try {
      seen = SeenJob{submit(marked, kPatientLimit)};
      refusals = 0;
    } catch (const CommandFailure&) {
      seen = waiter.look();
      refusals = seen || !waiter.answered_at_once() ? 0 : refusals + 1;
      if (refusals == kMostRefusals) throw;
    }
    if (!seen) continue;
    if (waiter.is_saved(*seen)) return seen->id;
    waiter.tell(fmt::format("Slurm has forgotten job {}, which is submitted again", seen->id));
  }
}

}  // namespace flyball
