// flyball cluster keeps and submit, as programs, where there is no Slurm: what they refuse. tests/slurm/shrink_test.py
// uses both on a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

TEST(ClusterKeeps, IsForTheScriptOfAnElasticJob) {
  unsetenv("SLURM_JOB_ID");
  const Ran outside = run_flyball({"cluster", "keeps", "--gpus", "8", "--iteration", "5"});
  EXPECT_NE(outside.status, 0);
  EXPECT_THAT(outside.err, HasSubstr("FLYBALL_CLUSTER and SLURM_JOB_ID are set"));
  EXPECT_THAT(run_flyball({"cluster", "keeps", "--gpus", "8"}).err, HasSubstr("--iteration is missing"));
  EXPECT_THAT(run_flyball({"cluster", "keeps", "--iteration", "5"}).err, HasSubstr("--gpus is missing"));
}

TEST(ClusterKeeps, SaysThatNobodyHasHeard) {
  const TempFolder folder;
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("FLYBALL_CLUSTER", ("unix:" + (folder / "nobody")).c_str(), 1);
  const Ran away = run_flyball({"cluster", "keeps", "--gpus", "8", "--iteration", "5"});
  unsetenv("SLURM_JOB_ID");
  unsetenv("FLYBALL_CLUSTER");
  EXPECT_NE(away.status, 0);
  EXPECT_THAT(away.err, HasSubstr("is away"));
}

TEST(ClusterSubmit, APipelineDoesNotShrink) {
  const Ran ran =
      run_flyball({"cluster", "submit", "--pipeline", "--shrinks", "--kind", "a", "--iterations", "5", "--", "job.sh"});
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.err, HasSubstr("leave --min, --max and --shrinks out"));
}

}  // namespace
}  // namespace flyball::testing
