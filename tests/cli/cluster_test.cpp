// flyball cluster: simulate, fit and trace as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::Ran;
using testing::run_flyball;
using testing::TempFolder;

const std::string kTrace =
    "submit_time,num_gpus,duration,model,batch_size\n0,1,600,resnet18,128\n30,2,900,vgg16,64\n60,1,300,gpt2,32\n";

TEST(ClusterSimulate, PrintsTheAgreedFields) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const std::vector<std::string> command = {"cluster",         "simulate", "--trace", "jobs.csv", "--nodes",  "2",
                                            "--gpus-per-node", "4",        "--eta",   "0.7",      "--format", "json"};
  const Ran ran = run_flyball(command, "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  auto json = ran.json();
  EXPECT_EQ(json["policy"], "powerflow");
  EXPECT_EQ(json["jobs"], 3);
  for (const char* field : {"avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "energy_j", "avg_power_w",
                            "peak_power_w", "gpu_utilisation", "decisions", "wall_seconds"}) {
    EXPECT_GT(json[field].get<double>(), 0.0) << field;
  }
  EXPECT_TRUE(json["migrations"].is_number_integer());
  // Same arguments, same bytes, but for the time that it took.
  auto again = run_flyball(command, "", folder.path()).json();
  json.erase("wall_seconds");
  again.erase("wall_seconds");
  EXPECT_EQ(json.dump(), again.dump());
}

TEST(ClusterSimulate, WritesItsFiles) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "simulate", "--trace", "jobs.csv", "--policy", "fifo", "--out", "out"}, "",
                              folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("average JCT"));
  const auto files = testing::folder_contents(folder / "out");
  ASSERT_EQ(
      files.count("result.json") + files.count("jobs.csv") + files.count("power.csv") + files.count("report.html"), 4u);
  // FIFO on an empty cluster runs every job as long as the trace says (to an iteration's rounding).
  EXPECT_THAT(files.at("jobs.csv"), HasSubstr("1,vgg16,64,2,30,30,9"));
}

TEST(ClusterSimulate, SaysWhatIsWrong) {
  const TempFolder folder;
  testing::write_file(folder / "bad.csv", "submit_time,num_gpus,duration\n0,0,5\n");
  testing::write_file(folder / "large.csv", "submit_time,num_gpus,duration\n0,64,5\n");
  Ran ran = run_flyball({"cluster", "simulate", "--trace", "bad.csv"}, "", folder.path());
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("bad.csv:2:3"));
  ran = run_flyball({"cluster", "simulate", "--trace", "large.csv", "--nodes", "1"}, "", folder.path());
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("asks for 64 GPUs"));
  ran = run_flyball({"cluster", "simulate", "--trace", "large.csv", "--gpus-per-node", "3"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  ran = run_flyball({"cluster", "simulate", "--trace", "none.csv"}, "", folder.path());
  EXPECT_EQ(ran.status, 1);
  ran = run_flyball({"cluster", "simulate", "--trace", "large.csv", "--policy", "lifo"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("powerflow"));
  ran = run_flyball({"cluster", "simulate", "--trace", "large.csv", "--zeus-eta", "2"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("from 0 (only time) to 1 (only energy), not '2'"));
}

TEST(ClusterCompare, MeasuresByPowerFlow) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const std::vector<std::string> cluster = {"--trace", "jobs.csv", "--nodes", "2"};
  const auto run = [&](std::vector<std::string> command, const std::vector<std::string>& rest) {
    command.insert(command.end(), cluster.begin(), cluster.end());
    command.insert(command.end(), rest.begin(), rest.end());
    return run_flyball(command, "", folder.path());
  };
  const Ran ran =
      run({"cluster", "compare"}, {"--policies", "fifo,powerflow", "--clocks", "1020,1530", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = ran.json();
  EXPECT_EQ(json["reference"], "powerflow");
  ASSERT_EQ(json["runs"].size(), 3u);
  EXPECT_EQ(json["runs"][0]["clock_mhz"], 1020.0);
  EXPECT_EQ(json["runs"][1]["clock_mhz"], 1530.0);
  EXPECT_EQ(json["runs"][2]["eta"], 1.0);
  EXPECT_EQ(json["runs"][2]["jct_ratio"], 1.0);
  EXPECT_GT(json["wall_seconds"].get<double>(), 0.0);
  // Just what simulate says.
  const auto alone = run({"cluster", "simulate"}, {"--policy", "fifo", "--clock", "1020", "--format", "json"}).json();
  for (const char* field : {"avg_jct_s", "p99_jct_s", "makespan_s", "energy_j", "decisions"}) {
    EXPECT_EQ(json["runs"][0][field], alone[field]) << field;
  }
  EXPECT_DOUBLE_EQ(json["runs"][0]["energy_ratio"].get<double>(),
                   alone["energy_j"].get<double>() / json["runs"][2]["energy_j"].get<double>());
}

TEST(ClusterCompare, PrintsARowPerPolicy) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--svg", "jct.svg"}, "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("compared with powerflow at eta 1"));
  EXPECT_THAT(testing::file_text(folder / "jct.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(ran.out, HasSubstr("average JCT (s)"));
  for (const char* row : {"\npowerflow", "\nafs", "\ngandiva+zeus", "\ntiresias-gittins", "\nfifo", "\nsrtf"}) {
    EXPECT_THAT(ran.out, HasSubstr(row));
  }
}

TEST(ClusterCompare, WritesOneReportOverAllPolicies) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--policies", "powerflow,fifo,afs",
                               "--clocks", "1020,1530", "--out", "out"},
                              "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto files = testing::folder_contents(folder / "out");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(files.at("comparison.json"))["runs"].size(), 5u);
  const std::string& page = files.at("report.html");
  for (const char* text : {"GPUs in use and power over time", ">powerflow, eta 1</text>", ">afs, ", ">fifo, "}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

// Rising energy for every policy that has a setting to choose.
TEST(ClusterCompare, SweepsEnergy) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--policies", "powerflow,fifo,gandiva+zeus",
                               "--sweep", "energy", "--format", "json"},
                              "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, int> runs;
  const auto json = ran.json();
  for (const auto& run : json["runs"]) ++runs[run["policy"].get<std::string>()];
  EXPECT_EQ(runs, (std::map<std::string, int>{{"powerflow", 7}, {"fifo", 7}, {"gandiva+zeus", 5}}));
}

TEST(ClusterCompare, SaysWhatIsWrong) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const auto refused = [&](const std::string& option, const std::string& value, const std::string& why) {
    const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", option, value}, "", folder.path());
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_EQ(ran.out, "");
  };
  refused("--policies", "fifo,srtff", "did you mean srtf?");
  refused("--policies", "fifo,afs,fifo", "name it once");
  refused("--policies", "fifo,", "no policy ''");
  refused("--sweep", "time", "energy");
  refused("--clocks", "1020,fast", "--clocks takes a number above 0, not 'fast'");
  refused("--etas", "0.5,-1", "not '-1'");
}

TEST(ClusterFit, PredictsHeldOutRows) {
  const Ran ran = run_flyball({"cluster", "fit", "data/cluster/v100.csv", "--holdout", "0.1", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = ran.json();
  ASSERT_EQ(json["models"].size(), 5u);
  for (const auto& model : json["models"]) {
    EXPECT_LT(model["mape_time"].get<double>(), 0.10) << model["model"];
    EXPECT_LT(model["mape_energy"].get<double>(), 0.10) << model["model"];
    EXPECT_GE(model["throughput"]["gamma_1"].get<double>(), 1.0);
    EXPECT_EQ(model["voltage_break_mhz"], 1020.0);
  }
}

TEST(ClusterTrace, SynthMakesTheShippedDay) {
  const Ran ran = run_flyball({"cluster", "trace", "synth"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, testing::file_text(std::string(FLYBALL_SOURCE_DIR) + "/examples/cluster/day.csv"));
}

TEST(ClusterTrace, Converts) {
  const TempFolder folder;
  testing::write_file(folder / "pods.csv",
                      "name,num_gpu,creation_time,deletion_time,scheduled_time\na,1,10,50,10\nb,0,10,50,10\n");
  const Ran ran = run_flyball({"cluster", "trace", "convert", "pods.csv", "--from", "alibaba"}, "", folder.path());
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, "# Converted; the original format is alibaba.\nsubmit_time,num_gpus,duration\n0,1,40\n");
  EXPECT_THAT(ran.err, HasSubstr("1 row left out"));
}

}  // namespace
}  // namespace flyball
