// What Slurm 22.05.8 of Debian 12 printed (tests/controller/slurm_22_05), read; and how later versions say the same.
#include "controller/slurm_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "controller/command_output.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string recorded(const std::string& name) {
  return read_text_file(std::string(FLYBALL_SOURCE_DIR "/tests/controller/slurm_22_05/") + name);
}

// The recorded cluster, by its own `squeue` and `sinfo`: 14 runs on n1 and n2 with a GPU and two processors for a
// task on each; 16 and 19 run on n3; 21 is held; 22 ended with status 0, 23 with 3, 15 was cancelled; n4 is drained.
TEST(SlurmEngine, ReadsJobsOfAClusterThatRuns) {
  const std::vector<EngineJob> jobs = SlurmLists().jobs(recorded("squeue.json"));
  std::vector<std::int64_t> ids;
  std::vector<EngineJobState> states;
  for (const EngineJob& job : jobs) {
    ids.push_back(job.id);
    states.push_back(job.state);
  }
  using S = EngineJobState;
  ASSERT_THAT(ids, ElementsAre(14, 15, 16, 19, 21, 22, 23));
  EXPECT_THAT(states, ElementsAre(S::kRunning, S::kCancelled, S::kRunning, S::kRunning, S::kPending, S::kCompleted,
                                  S::kFailed));

  const EngineJob& spread = jobs[0];
  ASSERT_EQ(spread.gpus.size(), 2U);
  EXPECT_EQ(spread.gpus[0].node, "n1");
  EXPECT_EQ(spread.gpus[1].node, "n2");
  EXPECT_EQ(spread.gpus[1].count, 1);
  EXPECT_THAT(spread.gpus[1].indices, ElementsAre(0));
  EXPECT_EQ(spread.cpus_per_task, 2);
  EXPECT_EQ(spread.tasks_per_node, 1);
  EXPECT_EQ(spread.comment, "flyball:elastic,kind=a,iterations=100,min=1,max=8");
  EXPECT_EQ(spread.user, 0);
  EXPECT_FALSE(spread.held);
  EXPECT_TRUE(spread.resizable);

  EXPECT_EQ(jobs[1].restarts, 1);  // it was put back once before it was cancelled
  EXPECT_EQ(spread.first_node, "n1");
  EXPECT_TRUE(spread.changeable);
  EXPECT_TRUE(jobs[1].gpus.empty());
  EXPECT_THAT(jobs[2].gpus[0].indices, ElementsAre(0, 1));
  EXPECT_FALSE(jobs[3].resizable);  // asked for by --gpus=1
  EXPECT_THAT(jobs[3].gpus[0].indices, ElementsAre(2));
  EXPECT_TRUE(jobs[4].held);
  EXPECT_EQ(jobs[4].reason, "JobHeldUser");
  EXPECT_EQ(jobs[4].wanted.gpus_per_node, 1);
  EXPECT_EQ(jobs[4].wanted_nodes, 1);
}

// What Slurm 22.05.8 showed of a job of four nodes with one task of two processors on each, from which two nodes were
// taken: its tasks are those of its start. Put back and started again, it may be changed once more.
TEST(SlurmEngine, ReadsAJobThatHasShrunk) {
  const auto job = [](const std::string& start_s) {
    return SlurmLists()
        .jobs(
            R"json({"jobs": [{"job_id": 1, "job_state": "RUNNING", "batch_host": "n1", "nodes": "n[1,3]", "cpus": 4,
                   "tasks": 4, "tasks_per_node": 0, "minimum_cpus_per_node": 2,
                   "resize_time": 1795704413, "start_time": )json" +
            start_s + R"json(, "tres_per_node": "gres:gpu:4",
                   "gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:a100:4(IDX:0-3)"]}]})json")
        .at(0);
  };
  const EngineJob shrunk = job("1795704412");
  EXPECT_EQ(shrunk.gpu_count(), 8);
  EXPECT_EQ(shrunk.gpus[1].node, "n3");
  EXPECT_EQ(shrunk.cpus_per_task, 2);
  EXPECT_FALSE(shrunk.changeable);
  EXPECT_TRUE(job("1795704500").changeable);
}

TEST(SlurmEngine, ReadsNodes) {
  const std::vector<EngineNode> nodes = SlurmLists().nodes(recorded("sinfo.json"));
  ASSERT_EQ(nodes.size(), 4U);
  for (const EngineNode& node : nodes) {
    EXPECT_EQ(node.gpus, 4);
    EXPECT_EQ(node.usable, node.name != "n4") << node.name;
  }
  EXPECT_EQ(nodes[3].state, "idle+drain");
}

TEST(SlurmEngine, ReadsWhatLaterVersionsPrint) {
  const std::vector<EngineJob> jobs = SlurmLists().jobs(R"json({"jobs": [
      {"job_id": 7, "job_state": ["RUNNING"], "priority": {"set": true, "infinite": false, "number": 12},
       "node_count": {"set": true, "infinite": false, "number": 1}, "tasks": {"set": true, "number": 2},
       "tasks_per_node": 2,
       "cpus": {"set": true, "number": 6}, "restart_cnt": 3, "nodes": "m1", "gres_detail": ["gpu:2(IDX:1,3)"]},
      {"job_id": 8, "job_state": ["RUNNING", "COMPLETING"], "nodes": "m2", "gres_detail": ["gpu:1(IDX:0)"]},
      {"job_id": 9, "job_state": ["PENDING"], "priority": {"set": true, "number": 0},
       "state_reason": "JobHeldAdmin", "dependency": "afterok:8(unfulfilled)"}]})json");
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].state, EngineJobState::kRunning);
  EXPECT_EQ(jobs[0].restarts, 3);
  EXPECT_EQ(jobs[0].tasks_per_node, 2);
  EXPECT_EQ(jobs[0].cpus_per_task, 3);
  EXPECT_THAT(jobs[0].gpus[0].indices, ElementsAre(1, 3));
  EXPECT_EQ(jobs[1].state, EngineJobState::kChanging);
  EXPECT_TRUE(jobs[2].held);
  EXPECT_TRUE(jobs[2].depends);
  EXPECT_FALSE(jobs[0].depends);
  const auto nodes = SlurmLists().nodes(R"({"nodes": [{"name": "m1", "state": ["MIXED"], "gres": "gpu:4,shard:8"},
                                                     {"name": "m2", "state": ["DOWN", "NOT_RESPONDING"]}]})");
  EXPECT_TRUE(nodes[0].usable);
  EXPECT_EQ(nodes[0].gpus, 4);
  EXPECT_FALSE(nodes[1].usable);
  EXPECT_EQ(nodes[1].gpus, 0);
}

// What the epilog has written, and an administrator, stays.
TEST(SlurmEngine, KeepsWordsOfOthersInAComment) {
  EXPECT_EQ(comment_with("", "flyball: it waits"), "flyball: it waits");
  EXPECT_EQ(comment_with("flyball: from 1 to 2; 3;flyball:energy_j=1,run_s=2", "flyball: a;b"),
            "flyball: a,b; 3;flyball:energy_j=1,run_s=2");
  EXPECT_EQ(comment_with("ask Zoe;flyball: old", "flyball: new"), "flyball: new;ask Zoe");
  EXPECT_EQ(SlurmLists().jobs(recorded("squeue.json"))[0].shown, "hello there");
}

// As 22.05 says it: held after a launch in vain (see docs/decisions/0086), after the fifth, by a user's requeuehold; a
// lost node, and a program that exits with status 1. A node that Slurm has drained, and one that is down as well.
TEST(SlurmEngine, TellsFailuresOfItsOwnFromThoseOfJobs) {
  const auto jobs = SlurmLists().jobs(R"json({"jobs": [
      {"job_id": 1, "job_state": "PENDING", "priority": 0, "state_reason": "JobHeldUser",
       "state_description": "launch failed requeued held"},
      {"job_id": 2, "job_state": "PENDING", "priority": 0, "state_reason": "JobHoldMaxRequeue"},
      {"job_id": 3, "job_state": "PENDING", "priority": 0, "state_reason": "JobHeldUser",
       "state_description": "job requeued in held state"},
      {"job_id": 4, "job_state": ["NODE_FAIL"], "state_reason": "NodeDown"},
      {"job_id": 5, "job_state": "FAILED", "state_reason": "NonZeroExitCode", "exit_code": 256}]})json");
  std::vector<bool> failed;
  for (const EngineJob& job : jobs) failed.push_back(job.engine_failed);
  EXPECT_THAT(failed, ElementsAre(true, true, false, true, false));
  // Two jobs of one script, which has exited with status 3: the second after 11 s.
  const auto ended = SlurmLists().jobs(R"json({"jobs": [
      {"job_id": 6, "job_state": "FAILED", "exit_code": 768, "start_time": 1795646426, "end_time": 1795646426},
      {"job_id": 7, "job_state": "FAILED", "exit_code": 768, "start_time": 1795646426, "end_time": 1795646437}]})json");
  EXPECT_TRUE(ended[0].failed_at_once);
  EXPECT_FALSE(ended[1].failed_at_once);
  const auto nodes = SlurmLists().nodes(R"({"nodes": [
      {"name": "m1", "state": "idle", "state_flags": ["DRAIN"], "reason": "Duplicate jobid"},
      {"name": "m2", "state": "idle", "state_flags": ["DRAIN", "NOT_RESPONDING"], "reason": "Duplicate jobid"},
      {"name": "m3", "state": "idle", "state_flags": ["DRAIN"], "reason": "new fans"}]})");
  EXPECT_TRUE(nodes[0].doubled);
  EXPECT_FALSE(nodes[1].doubled);
  EXPECT_FALSE(nodes[2].doubled);
}

TEST(SlurmEngine, RefusesWhatIsNoAnswerOfSlurm) {
  for (const char* const text : {"", "slurm_load_jobs error", "[]", R"({"jobs": 3})", R"({"jobs": [3]})",
                                 R"({"jobs": [{"job_state": "RUNNING"}]})"}) {
    EXPECT_THROW((void)SlurmLists().jobs(text), InputError) << text;
  }
  EXPECT_THROW((void)SlurmLists().nodes(R"({"nodes": [{}]})"), InputError);
}

// "Zoë" in Latin-1, a list of nodes that Slurm does not print, a number where a flag should be, and a node without a
// name: the other jobs and nodes are read.
TEST(SlurmEngine, LeavesOutWhatCannotBeRead) {
  std::vector<OddEntry> odd;
  const auto jobs = SlurmLists().jobs(
      "{\"jobs\": [{\"job_id\": 7, \"name\": \"Zo\xEB\", \"job_state\": \"PENDING\"},\n"
      "{\"job_id\": 8, \"job_state\": \"RUNNING\", \"nodes\": \"n[1-2]x\"}, {\"job_id\": 9, \"batch_flag\": 1}, 3]}",
      &odd);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].name, "Zo\xEF\xBF\xBD");
  ASSERT_EQ(odd.size(), 3U);
  EXPECT_EQ(odd[0].job, 8);
  EXPECT_THAT(odd[0].words, HasSubstr("'n[1-2]x' is no list of nodes"));
  EXPECT_EQ(odd[1].job, 9);
  EXPECT_EQ(SlurmLists().nodes(R"({"nodes": [{}, {"name": "m1"}]})", &odd).size(), 1U);
  EXPECT_EQ(odd.size(), 4U);
}

// JSON's escapes may stand for what a terminal obeys: here the escape character, and one that turns text around.
TEST(SlurmEngine, ReadsNamesThatATerminalWouldObeyAsTextToBeShown) {
  const auto jobs = SlurmLists().jobs(
      R"({"jobs": [{"job_id": 7, "name": "\u001b[2Jx\u202ey", "user_name": "Zoë", "job_state": "PENDING"}]})");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].name, "\\u001b[2Jx\\u202ey");
  EXPECT_EQ(jobs[0].user_name, "Zoë");
}

// One after the other, as a controller reads them: a list with bad bytes is no trouble for the next one.
TEST(SlurmEngine, ReadsListAfterList) {
  SlurmLists lists;
  EXPECT_EQ(lists.nodes(recorded("sinfo.json")).size(), 4U);
  const std::size_t jobs = lists.jobs(recorded("squeue.json")).size();
  EXPECT_EQ(lists.jobs("{\"jobs\": [{\"job_id\": 7, \"name\": \"Zo\xEB\"}]}").size(), 1U);
  EXPECT_THROW((void)lists.jobs("nothing"), InputError);
  EXPECT_EQ(lists.jobs(recorded("squeue.json")).size(), jobs);
}

// State, flags and last_busy of nodes as 22.05.8 showed them: idle; about to get a job; told to go off, going, off,
// told to wake, waking; one that did not come back within ResumeTimeout, and the same after State=RESUME; off and
// drained; one with jobs that is to go off after them.
TEST(SlurmEngine, ReadsWhichNodesAreOff) {
  using P = NodePower;
  struct Row {
    const char* state;
    const char* flags;
    P power;
    bool usable;
    bool idle;
  };
  for (const Row& row :
       {Row{"idle", "", P::kOn, true, true}, Row{"idle", R"("PLANNED")", P::kOn, true, false},
        Row{"idle", R"("POWER_DOWN")", P::kGoingOff, true, false},
        Row{"idle", R"("POWERING_DOWN")", P::kGoingOff, true, false},
        Row{"idle", R"("POWERED_DOWN")", P::kOff, true, false},
        Row{"idle", R"("POWER_UP","POWERED_DOWN")", P::kWaking, true, false},
        Row{"idle", R"("NOT_RESPONDING","POWERING_UP")", P::kWaking, true, false},
        Row{"down", R"("POWERED_DOWN","NOT_RESPONDING")", P::kOff, false, false},
        Row{"idle", R"("POWERED_DOWN","NOT_RESPONDING")", P::kOff, true, false},
        Row{"idle", R"("DRAIN","POWERED_DOWN")", P::kOff, false, false},
        Row{"idle", R"("NOT_RESPONDING")", P::kOn, false, false},
        Row{"allocated", R"("POWER_DOWN")", P::kOn, true, false}, Row{"mixed", "", P::kOn, true, false}}) {
    SCOPED_TRACE(std::string(row.state) + " " + row.flags);
    const auto nodes = SlurmLists().nodes(R"({"nodes": [{"name": "n1", "last_busy": 1795689866, "state": ")" +
                                          std::string(row.state) + R"(", "state_flags": [)" + row.flags + "]}]}");
    ASSERT_EQ(nodes.size(), 1U);
    EXPECT_EQ(nodes[0].power, row.power);
    EXPECT_EQ(nodes[0].usable, row.usable);
    EXPECT_EQ(nodes[0].idle_since, row.idle ? std::optional(Seconds(1795689866.0)) : std::nullopt);
  }
}

// As `scontrol show hostnames` prints them.
TEST(SlurmEngine, ExpandsListsOfNodes) {
  EXPECT_THAT(expand_node_list("n1"), ElementsAre("n1"));
  EXPECT_THAT(expand_node_list("n[1-3,7],m1"), ElementsAre("n1", "n2", "n3", "n7", "m1"));
  EXPECT_THAT(expand_node_list("rack-2-n[08-10]"), ElementsAre("rack-2-n08", "rack-2-n09", "rack-2-n10"));
  for (const char* const text : {"n[1", "n[a]", ",", "n[1-2]x", "n[1-2][1-2]"}) {
    EXPECT_THROW((void)expand_node_list(text), InputError) << text;
  }
}

TEST(CommandOutput, TellsWhatWasPrintedAndWhatWentWrong) {
  EXPECT_EQ(command_output({"sh", "-c", "echo out; echo err >&2"}, Seconds(60.0)), "out\n");
  const auto failure = [](const std::vector<std::string>& command, double limit_s) -> std::string {
    try {
      (void)command_output(command, Seconds(limit_s));
    } catch (const CommandFailure& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(failure({"sh", "-c", "echo Job is gone >&2; exit 3"}, 60.0), HasSubstr("(status 3): Job is gone"));
  EXPECT_THAT(failure({"no-such-program"}, 60.0), HasSubstr("cannot run no-such-program"));
  EXPECT_EQ(failure({"sleep", "60"}, 0.05), "sleep 60 did not answer in 0.05 s");
}

}  // namespace
}  // namespace flyball
