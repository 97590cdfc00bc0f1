// Slurm as a cluster engine, by its own commands: squeue and sinfo with --json tell (slurm_lists.h), scontrol acts.
// Tried with Slurm 22.05.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "controller/cluster_engine.h"
#include "controller/slurm_lists.h"

namespace flyball {

// Returns a job's AdminComment with our words in the place of those that were there, which begin like them with
// "flyball: "; words of others stay. A semicolon stands between.
[[nodiscard]] std::string comment_with(std::string_view comment, std::string words);

class SlurmEngine : public ClusterEngine {
 public:
  // `limit` is for each command. The commands read Slurm's configuration from where SLURM_CONF says.
  explicit SlurmEngine(Seconds limit = Seconds(10.0)) : limit_(limit) {}

  [[nodiscard]] EngineView observe() override;
  void hold(const EngineJob& job) override;
  void requeue_held(const EngineJob& job) override;
  void resize(const EngineJob& job, const GpuShape& shape) override;
  void start(const EngineJob& job) override;
  void keep_nodes(const EngineJob& job, const std::vector<std::string>& kept) override;
  void resume(const EngineNode& node) override;
  void set_power(const std::vector<std::string>& nodes, bool on) override;
  void explain(const EngineJob& job, const std::string& words) override;

 private:
  [[nodiscard]] bool has_accounts();

  Seconds limit_;
  SlurmLists lists_;
  std::string squeue_printed_;        // kept for its memory
  std::string sinfo_printed_;         // likewise
  std::optional<bool> has_accounts_;  // whether Slurm has a database of accounts; nothing: it was not asked yet
};

}  // namespace flyball
