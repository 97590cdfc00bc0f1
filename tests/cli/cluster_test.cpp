// flyball cluster: simulate, fit and trace as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
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
  EXPECT_EQ(json["policy"], "joule-price");
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
  const Ran ran = run_flyball(
      {"cluster", "simulate", "--trace", "jobs.csv", "--policy", "fifo", "--no-node-shutdown", "--out", "out"}, "",
      folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("average JCT"));
  const auto files = testing::folder_contents(folder / "out");
  ASSERT_EQ(
      files.count("result.json") + files.count("jobs.csv") + files.count("power.csv") + files.count("report.html"), 4u);
  // FIFO on an empty cluster that is on runs every job as long as the trace says (to an iteration's rounding).
  EXPECT_THAT(files.at("jobs.csv"), HasSubstr("1,vgg16,64,2,30,30,9"));
}

// Two jobs that leave room on the one GPU: together they are done before they would be taking turns.
TEST(ClusterSimulate, GandivaPacksUnlessToldNotTo) {
  const TempFolder folder;
  const std::string job = "0,1,3600,resnet18,32\n";
  testing::write_file(folder / "jobs.csv", "submit_time,num_gpus,duration,model,batch_size\n" + job + job);
  std::vector<std::string> command = {"cluster", "simulate", "--trace",         "jobs.csv", "--policy", "gandiva",
                                      "--nodes", "1",        "--gpus-per-node", "1",        "--format", "json"};
  const auto packed = run_flyball(command, "", folder.path()).json();
  command.emplace_back("--no-packing");
  const auto in_turns = run_flyball(command, "", folder.path()).json();
  EXPECT_LT(packed["avg_jct_s"].get<double>(), 0.95 * in_turns["avg_jct_s"].get<double>());
  EXPECT_GE(in_turns["avg_jct_s"].get<double>(), 2.0 * 3600.0);
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
  EXPECT_THAT(ran.err, HasSubstr("joule-price"));
  ran = run_flyball({"cluster", "simulate", "--trace", "large.csv", "--zeus-eta", "2"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("from 0 (only time) to 1 (only energy), not '2'"));
}

// A V100 has clocks from 135 to 1530 MHz.
TEST(ClusterSimulate, RefusesClocksThatTheGpuDoesNotHave) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  testing::write_file(folder / "table.csv",
                      "model,gpus,batch_size,clock_mhz,step_time_s,step_energy_j\nvgg16,1,64,1980,0.1,20\n");
  Ran ran = run_flyball({"cluster", "simulate", "--trace", "jobs.csv", "--policy", "fifo", "--clock", "900"}, "",
                        folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("no job can run at 900 MHz"));
  EXPECT_THAT(ran.err, HasSubstr("and the nearest is 1020"));
  ran = run_flyball({"cluster", "simulate", "--trace", "jobs.csv", "--table", "table.csv"}, "", folder.path());
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("vgg16 has a row at 1980 MHz; the clocks of a v100 are from 135 to 1530 MHz"));
  ran = run_flyball({"cluster", "fit", "table.csv"}, "", folder.path());
  EXPECT_EQ(ran.status, 3);
  ran = run_flyball({"cluster", "fit", "table.csv", "--gpu", "h100", "--voltage-break", "2500"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("--voltage-break is 2500 MHz"));
}

// The same at once with an option that has an effect: no warning.
TEST(ClusterSimulate, WarnsOfOptionsThatThePolicyIgnores) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const auto says = [&](const std::vector<std::string>& options) {
    std::vector<std::string> command = {"cluster", "simulate", "--trace", "jobs.csv"};
    command.insert(command.end(), options.begin(), options.end());
    const Ran ran = run_flyball(command, "", folder.path());
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(says({"--policy", "joule-price", "--clock", "1020"}),
              HasSubstr("warning: --clock has no effect; it is for policies that choose no clocks"));
  EXPECT_THAT(says({"--policy", "tiresias+zeus", "--clock", "1020"}), HasSubstr("--clock has no effect"));
  EXPECT_THAT(says({"--policy", "fifo", "--eta", "0.5"}), HasSubstr("--eta has no effect"));
  EXPECT_THAT(says({"--policy", "fifo", "--zeus-eta", "0.5"}), HasSubstr("--zeus-eta has no effect"));
  EXPECT_THAT(says({"--policy", "afs", "--knowledge", "fitted"}), HasSubstr("--knowledge has no effect"));
  EXPECT_THAT(says({"--policy", "afs", "--profiling", "60s"}), HasSubstr("--profiling has no effect"));
  EXPECT_THAT(says({"--knowledge", "profiled", "--profiling", "60s"}), HasSubstr("nothing is profiled"));
  EXPECT_THAT(says({"--policy", "srtf", "--no-packing"}), HasSubstr("--no-packing has no effect"));
  EXPECT_THAT(says({"--pipeline-speeds", "max"}), HasSubstr("without --pipelines"));
  EXPECT_THAT(says({"--no-node-shutdown", "--wake", "9s"}), HasSubstr("--wake has no effect with --no-node-shutdown"));
  EXPECT_THAT(says({"--no-node-shutdown", "--off-after", "9s"}), HasSubstr("--off-after has no effect"));
  for (const std::vector<std::string>& heeded :
       {std::vector<std::string>{"--policy", "fifo", "--clock", "1020", "--wake", "9s", "--off-after", "9s"},
        {"--eta", "0.9", "--knowledge", "learned", "--profiling", "60s"},
        {"--policy", "powerflow", "--eta", "0.9", "--knowledge", "fitted", "--no-node-shutdown"},
        {"--policy", "gandiva+zeus", "--zeus-eta", "0.3", "--no-packing"}}) {
    EXPECT_EQ(says(heeded), "") << heeded[1];
  }
  const Ran compared = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--policies", "joule-price,powerflow",
                                    "--clocks", "1020", "--etas", "0.9", "--zeus-etas", "0.3"},
                                   "", folder.path());
  EXPECT_THAT(compared.err, HasSubstr("--clocks has no effect"));
  EXPECT_THAT(compared.err, HasSubstr("--zeus-etas has no effect"));
  EXPECT_THAT(compared.err, ::testing::Not(HasSubstr("--etas has no effect; it is for policies that keep")));
}

TEST(ClusterCompare, MeasuresByTheDefaultPolicy) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const std::vector<std::string> cluster = {"--trace", "jobs.csv", "--nodes", "2"};
  const auto run = [&](std::vector<std::string> command, const std::vector<std::string>& rest) {
    command.insert(command.end(), cluster.begin(), cluster.end());
    command.insert(command.end(), rest.begin(), rest.end());
    return run_flyball(command, "", folder.path());
  };
  const Ran ran =
      run({"cluster", "compare"}, {"--policies", "fifo,joule-price", "--clocks", "1020,1530", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = ran.json();
  EXPECT_EQ(json["reference"], "joule-price");
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
  EXPECT_THAT(ran.out, HasSubstr("compared with joule-price at eta 1"));
  EXPECT_THAT(testing::file_text(folder / "jct.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(ran.out, HasSubstr("average JCT (s)"));
  for (const char* row : {"\npowerflow", "\nafs", "\ngandiva+zeus", "\ntiresias-gittins", "\nfifo", "\nsrtf"}) {
    EXPECT_THAT(ran.out, HasSubstr(row));
  }
}

TEST(ClusterCompare, WritesOneReportOverAllPolicies) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--policies", "joule-price,fifo,afs",
                               "--clocks", "1020,1530", "--out", "out"},
                              "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto files = testing::folder_contents(folder / "out");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(files.at("comparison.json"))["runs"].size(), 5u);
  const std::string& page = files.at("report.html");
  for (const char* text : {"GPUs in use and power over time", ">joule-price, eta 1</text>", ">afs, ", ">fifo, "}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

// Rising energy for every policy that has a setting to choose.
TEST(ClusterCompare, SweepsEnergy) {
  const TempFolder folder;
  testing::write_file(folder / "jobs.csv", kTrace);
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "jobs.csv", "--policies",
                               "joule-price,fifo,gandiva+zeus", "--sweep", "energy", "--format", "json"},
                              "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, int> runs;
  const auto json = ran.json();
  for (const auto& run : json["runs"]) ++runs[run["policy"].get<std::string>()];
  EXPECT_EQ(runs, (std::map<std::string, int>{{"joule-price", 9}, {"fifo", 7}, {"gandiva+zeus", 5}}));
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
  refused("--clocks", "1020,1025", "no job can run at 1025 MHz");
  refused("--clock", "1600", "and the nearest is 1530");
}

TEST(ClusterRun, TakesAfsWithAClockAndAgentsOnly) {
  const TempFolder folder;
  std::vector<std::string> command = {"cluster", "run",      "--budget", "1kW",        "--policy",
                                      "afs",     "--socket", "s",        "--database", "db"};
  Ran ran = run_flyball(command, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("policy afs keeps no power budget"));
  command.insert(command.end(), {"--clock", "1290"});
  ran = run_flyball(command, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("the agents that set it (--agent)"));
  command.back() = "1205";
  ran = run_flyball(command, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("no job can run at 1205 MHz"));
}

TEST(ClusterFit, PredictsHeldOutRows) {
  for (const auto& [file, gpu, f0] : {std::tuple("v100", "v100", 1020.0), std::tuple("a100-pcie", "a100", 1005.0)}) {
    const Ran ran = run_flyball({"cluster", "fit", std::string("data/cluster/") + file + ".csv", "--gpu", gpu,
                                 "--holdout", "0.1", "--format", "json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto json = ran.json();
    ASSERT_EQ(json["models"].size(), 5u);
    for (const auto& model : json["models"]) {
      EXPECT_LT(model["mape_time"].get<double>(), 0.07) << file << " " << model["model"];
      EXPECT_LT(model["mape_energy"].get<double>(), 0.07) << file << " " << model["model"];
      EXPECT_GE(model["throughput"]["gamma_1"].get<double>(), 1.0);
      EXPECT_EQ(model["voltage_break_mhz"], f0);
    }
  }
}

// From one GPU to two, and from two to four, of one node; nothing on several.
TEST(ClusterFit, PredictsSizesThatItHasNotSeen) {
  const TempFolder folder;
  std::string table = "model,gpus,batch_size,clock_mhz,step_time_s,step_energy_j\n";
  for (const char* row :
       {"1,64,1530,0.8,160", "1,32,1530,0.4,80", "2,64,1530,0.4,160", "2,32,1530,0.2,80", "4,64,1530,0.2,160"}) {
    table += "vgg16," + std::string(row) + "\n";
  }
  testing::write_file(folder / "table.csv", table);
  Ran ran = run_flyball({"cluster", "fit", "table.csv", "--outside", "--format", "json"}, "", folder.path());
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto model = ran.json()["models"][0];
  EXPECT_EQ(model["within_node"]["count"], 3);
  EXPECT_GE(model["within_node"]["mape_time"].get<double>(), 0.0);
  for (const char* place : {"to_several_nodes", "several_nodes"}) {
    EXPECT_EQ(model[place]["count"], 0);
    EXPECT_TRUE(model[place]["mape_time"].is_null());
  }
  ran = run_flyball({"cluster", "fit", "table.csv", "--outside", "--holdout", "0.1"}, "", folder.path());
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("--outside holds out sizes and --holdout rows"));
}

TEST(ClusterTrace, SynthMakesTheShippedDay) {
  const Ran ran = run_flyball({"cluster", "trace", "synth"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, testing::file_text(std::string(FLYBALL_SOURCE_DIR) + "/examples/cluster/day.csv"));
}

TEST(ClusterTrace, SynthScalesTheShareOfLargeJobs) {
  const auto large = [](const std::string& factor) {
    const Ran ran = run_flyball({"cluster", "trace", "synth", "--jobs", "1000", "--large-jobs", factor});
    EXPECT_EQ(ran.status, 0) << ran.err;
    int jobs = -1;  // one line more than rows: the comment, and the header has no ",1,"
    for (std::size_t at = 0; at != std::string::npos; at = ran.out.find('\n', at + 1)) ++jobs;
    int single = 0;
    for (std::size_t at = ran.out.find(",1,"); at != std::string::npos; at = ran.out.find(",1,", at + 1)) ++single;
    return jobs - 2 - single;
  };
  EXPECT_NEAR(large("1"), 300, 45);
  EXPECT_NEAR(large("2"), 600, 45);
}

// Every format by the program: what it reads, writes and leaves out. The result is a trace that simulate takes.
TEST(ClusterTrace, ConvertsEveryFormat) {
  const TempFolder folder;
  testing::write_file(folder / "pods.csv",
                      "name,num_gpu,creation_time,deletion_time,scheduled_time\na,1,10,50,10\nb,0,10,50,10\n");
  testing::write_file(folder / "log.json", R"([
    {"submitted_time": "2017-10-09 07:00:00", "attempts": [
      {"start_time": "2017-10-09 07:01:00", "end_time": "2017-10-09 07:02:00", "detail": [{"gpus": ["gpu0"]}]},
      {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 08:00:30",
       "detail": [{"gpus": ["gpu0", "gpu1"]}, {"gpus": ["gpu0", "gpu1"]}]}]},
    {"submitted_time": "2017-10-09 07:10:00", "attempts": []},
    {"submitted_time": "2017-10-09 07:20:00", "attempts": [
      {"start_time": "2017-10-09 23:59:50", "end_time": "2017-10-10 00:00:10", "detail": [{"gpus": ["gpu3"]}]}]}])");
  testing::write_file(folder / "workload.csv",
                      "name,time,application,num_replicas,batch_size\nbert-1,60,bert,4,12\nncf-2,90,ncf,1,256\n");
  const struct {
    const char* file;
    const char* format;
    const char* rows;
    const char* warning;
  } cases[] = {{"pods.csv", "alibaba", "0,1,40\n", "1 row left out"},
               {"log.json", "philly", "0,4,90\n1200,1,20\n", "1 row left out"},
               {"workload.csv", "pollux", "0,4,2700\n30,1,1080\n", ""}};
  for (const auto& one : cases) {
    const Ran ran = run_flyball({"cluster", "trace", "convert", one.file, "--from", one.format}, "", folder.path());
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, std::string("# Converted; the original format is ") + one.format +
                           ".\nsubmit_time,num_gpus,duration\n" + one.rows);
    EXPECT_THAT(ran.err, HasSubstr(one.warning));
    if (*one.warning == '\0') EXPECT_EQ(ran.err, "");
    const std::vector<std::string> to_file = {"cluster", "trace",    "convert", one.file,
                                              "--from",  one.format, "--out",   "jobs.csv"};
    EXPECT_EQ(run_flyball(to_file, "", folder.path()).out, "wrote jobs.csv\n");
    const Ran simulated =
        run_flyball({"cluster", "simulate", "--trace", "jobs.csv", "--format", "json"}, "", folder.path());
    ASSERT_EQ(simulated.status, 0) << simulated.err;
    EXPECT_GT(simulated.json()["avg_jct_s"].get<double>(), 0.0);
  }
}

// A file of another format is refused with the place and a mend, not converted to nonsense.
TEST(ClusterTrace, RefusesAnotherFormat) {
  const TempFolder folder;
  testing::write_file(folder / "pods.csv", "name,num_gpu,creation_time,deletion_time,scheduled_time\na,1,10,50,10\n");
  testing::write_file(folder / "late.csv", "name,num_gpu,creation_time,deletion_time,scheduled_time\na,1,ten,50,10\n");
  testing::write_file(folder / "doom.csv", "time,application,num_gpus\n1,doom,1\n");
  testing::write_file(folder / "log.json", "[\n{]");
  const auto refused = [&](const char* file, const char* format, const char* where) {
    const Ran ran = run_flyball({"cluster", "trace", "convert", file, "--from", format}, "", folder.path());
    EXPECT_EQ(ran.status, 3) << file << " as " << format;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(where));
  };
  refused("pods.csv", "philly", "pods.csv:1:");
  refused("pods.csv", "pollux", "pods.csv:1:");
  refused("doom.csv", "alibaba", "doom.csv:1:");
  refused("late.csv", "alibaba", "late.csv:2:5");
  refused("doom.csv", "pollux", "doom.csv:2:3");
  refused("log.json", "philly", "log.json:2:2");
}

}  // namespace
}  // namespace flyball
