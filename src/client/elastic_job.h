// What an elastic job of a cluster says to the controller (`flyball cluster run`): how far it is, and how long its
// iterations take; and what it is told: whether to write a checkpoint and end, so as to go on with more or fewer GPUs.
// A job that was submitted as one that shrinks may be told instead with which of its nodes it is to go on; it says that
// it does by a report with their number of GPUs.
//
// The training never waits long for the controller. A report waits 0.1 s for its answer at most, and not at all from
// when an answer is late until one comes again; meanwhile the answer is "go on", and the newest report is sent as soon
// as the controller answers. Reports that come closely after another are not sent, but for the last of the training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

class ElasticJob {
 public:
  struct Options {
    std::string controller;  // as parse_endpoint takes it
    std::string ca_file;     // as HttpClient takes it
    std::string token;       // of the job; shown by TLS only
    std::string job;         // Slurm's number of the job
    int gpus = 0;            // that the job has now
    Seconds patience{0.1};   // for the answer to a report
    Seconds interval{0.5};   // least time between two reports that are sent
    Seconds retry{1.0};      // from a failure until the report is sent again
    // Told in a sentence of what fails and works again; called by report(), in its thread. Empty: nobody.
    std::function<void(const std::string&)> notice;
  };

  // Returns the options by the environment: FLYBALL_CLUSTER, FLYBALL_CLUSTER_CA, FLYBALL_JOB_TOKEN, SLURM_JOB_ID and,
  // where `gpus` is 0, Slurm's numbers of nodes and of GPUs on a node. What is missing is empty.
  [[nodiscard]] static Options from_environment(int gpus = 0);

  // A job without controller or number reports to nobody, and says so once. So does one
  // whose CA file cannot be used: no training ends for that. Throws UsageError where the address is none.
  explicit ElasticJob(Options options);
  // Waits half a second at most for a report that is under way.
  ~ElasticJob();
  ElasticJob(const ElasticJob&) = delete;
  ElasticJob& operator=(const ElasticJob&) = delete;

  // Reports that `iteration` of `iterations` are done, the last in `step`. Returns whether the job is to write a
  // checkpoint and end. For one thread at a time. Throws UsageError where the numbers are below 0, or not finite.
  bool report(std::int64_t iteration, std::int64_t iterations, Seconds step);

  // The nodes with which the job is to go on in place of ending, by the last report; empty: it is to end, or to go on
  // as it is.
  [[nodiscard]] const std::vector<std::string>& keeps() const { return keeps_; }
  // Says that the job runs on so many GPUs from now on, and on no others: sends the last report again, with that
  // number. Throws UsageError below 1.
  void go_on(int gpus);

  // Whether there is somebody to report to.
  [[nodiscard]] bool reports() const { return courier_ != nullptr; }

 private:
  class Courier;

  bool hand_over(Seconds step, bool at_once);
  void tell();

  Options options_;
  std::int64_t iteration_ = 0;   // of the last report
  std::int64_t iterations_ = 0;  // likewise
  std::vector<std::string> keeps_;
  std::unique_ptr<Courier> courier_;  // null: nobody to report to
  std::string trouble_;               // why not, though there is an address
  bool told_ = false;
};

}  // namespace flyball
