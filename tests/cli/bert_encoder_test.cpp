// A real model, traced by its framework's own profiler while simulated meters record: examples/bert_encoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;

constexpr const char* kPython = "/usr/bin/python3";  // the system's, which has the system's PyTorch

// A machine of its own, gone with the test.
class SimulatedMeters {
 public:
  SimulatedMeters() : name_("account-" + std::to_string(::getpid())) {
    up_ = run_flyball({"sim", "up", "--ideal", "--name", name_, "--gpus", "1", "--powercap", folder_ / "powercap"});
    ::setenv("FLYBALL_SIM", name_.c_str(), 1);
    ::setenv("FLYBALL_POWERCAP_ROOT", (folder_ / "powercap").c_str(), 1);
  }
  ~SimulatedMeters() {
    ::unsetenv("FLYBALL_POWERCAP_ROOT");
    ::unsetenv("FLYBALL_SIM");
    (void)run_flyball({"sim", "down", "--name", name_});
  }
  SimulatedMeters(const SimulatedMeters&) = delete;
  SimulatedMeters& operator=(const SimulatedMeters&) = delete;

  [[nodiscard]] const Ran& up() const { return up_; }

 private:
  TempFolder folder_;
  std::string name_;
  Ran up_;
};

TEST(BertEncoder, AttentionAndDenseLayersDominate) {
  if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no PyTorch for /usr/bin/python3; install python3-torch";
  }
  const TempFolder folder;
  const SimulatedMeters meters;
  ASSERT_EQ(meters.up().status, 0) << meters.up().err;
  // BERT-base's twelve layers of twelve heads with four times as wide a feed-forward part, narrower.
  const Ran record = run_flyball({"record",
                                  "-o",
                                  folder / "power.csv",
                                  "--jiffies",
                                  folder / "jiffies.csv",
                                  "--",
                                  kPython,
                                  "examples/bert_encoder/bert_encoder.py",
                                  "--trace",
                                  folder / "trace.json",
                                  "--hidden",
                                  "192",
                                  "--sequence",
                                  "32",
                                  "--batch",
                                  "2",
                                  "--words",
                                  "1000",
                                  "--steps",
                                  "1",
                                  "--threads",
                                  "1"});
  ASSERT_EQ(record.status, 0) << record.err;
  const std::vector<std::string> account = {
      "account", "--events", folder / "trace.json", "--power", folder / "power.csv", "--format", "json"};
  const Ran ran = run_flyball(account);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  const double measured = result.at("measured_j");
  EXPECT_GT(measured, 0.0);
  const auto sum_of = [](const json& footprint, std::initializer_list<const char*> parts) {
    double sum = 0.0;
    for (const char* part : parts) sum += footprint.at(part).get<double>();
    return sum;
  };
  EXPECT_NEAR(sum_of(result, {"attributed_j", "idle_j", "outside_j"}), measured, 1e-9 * measured);

  double model = 0.0;
  double encoder = 0.0;
  double attention_and_dense = 0.0;
  double rows = 0.0;
  for (const json& row : result.at("footprint")) {
    const std::string name = row.at("name");
    const double joules = row.at("energy_j");
    rows += joules;
    if (row.at("phase") == "backward" || name.find("bert/") == std::string::npos) continue;
    model += joules;
    if (name.find("bert/encoder/") == std::string::npos) continue;
    encoder += joules;
    if (name.find("/attention/") != std::string::npos || name.find("/dense") != std::string::npos) {
      attention_and_dense += joules;
    }
  }
  EXPECT_NEAR(rows, result.at("attributed_j").get<double>(), 1e-9 * measured);
  ASSERT_GT(model, 0.0) << ran.out.substr(0, 2000);
  // More than 99 % in the paper's section 5.3, of a larger model.
  EXPECT_GT(encoder / model, 0.8);
  EXPECT_GT(attention_and_dense / encoder, 0.7);

  // Divided by jiffies, less is the program's and the rest has owners.
  std::vector<std::string> divided = account;
  divided.insert(divided.end(), {"--jiffies", folder / "jiffies.csv"});
  const Ran shared = run_flyball(divided);
  ASSERT_EQ(shared.status, 0) << shared.err;
  const json parts = shared.json();
  EXPECT_NEAR(parts.at("measured_j").get<double>(), measured, 1e-9 * measured);
  EXPECT_NEAR(sum_of(parts, {"attributed_j", "idle_j", "outside_j", "elsewhere_j"}), measured, 1e-9 * measured);
}

}  // namespace
}  // namespace flyball::testing
