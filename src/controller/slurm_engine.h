// Slurm as a cluster engine, by its own commands: squeue and sinfo with --json tell, scontrol acts. Tried with Slurm
// 22.05; the numbers and states of later versions, which are objects and lists, are read, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "controller/cluster_engine.h"

namespace flyball {

// Read what `squeue --json` and `sinfo --json` print; bytes that are not UTF-8, as users may have named things, are
// replaced. Throw InputError where it is no JSON of that kind. An entry that cannot be read is added to `odd` and left
// out; without `odd` it is an InputError.
[[nodiscard]] std::vector<EngineJob> parse_slurm_jobs(std::string_view text, std::vector<OddEntry>* odd = nullptr);
[[nodiscard]] std::vector<EngineNode> parse_slurm_nodes(std::string_view text, std::vector<OddEntry>* odd = nullptr);

// Returns the names that a list of Slurm's stands for: "n[01-03,7],m1" is n01, n02, n03, n7, m1. Throws InputError.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view text);

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
  std::optional<bool> has_accounts_;  // whether Slurm has a database of accounts; nothing: it was not asked yet
};

}  // namespace flyball
