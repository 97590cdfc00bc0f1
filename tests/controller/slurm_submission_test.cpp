// Jobs that a Slurm forgets before it has saved them. The Slurm here is two shell scripts that keep its jobs in a file;
// tests/slurm/kills_test.py does the same with a real one, of which slurmctld is killed.
#include "controller/slurm_submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "controller/command_output.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;

// Its sbatch writes each comment into `comments`, and a line "NUMBER|PENDING|COMMENT" into `jobs`, which its squeue
// prints. `sbatch` and `squeue` are what they do besides: $n is the how-manieth call it is, $comment the job's.
class ScriptedSlurm {
 public:
  ScriptedSlurm(const std::string& sbatch, const std::string& squeue) : path_before_(std::getenv("PATH")) {
    const std::string begin = "#!/bin/sh\ncd " + folder_.path().string() +
                              "\necho >> calls-${0##*/}; n=$(wc -l < calls-${0##*/})\n"
                              "for word; do case $word in --comment=*) comment=${word#--comment=};; esac; done\n";
    write("sbatch", begin + sbatch + "\necho \"$((n + 100))|PENDING|$comment\" >> jobs; echo $((n + 100))\n");
    write("squeue", begin + squeue + "\ncat jobs 2>/dev/null; true\n");
    ::setenv("PATH", (folder_.path().string() + ":" + path_before_).c_str(), 1);
  }
  ~ScriptedSlurm() { ::setenv("PATH", path_before_.c_str(), 1); }
  ScriptedSlurm(const ScriptedSlurm&) = delete;
  ScriptedSlurm& operator=(const ScriptedSlurm&) = delete;

  std::int64_t submit_until_saved() {
    SavedSubmissionOptions options;
    options.saved_after = Seconds(0.05);
    options.period = Seconds(0.01);
    options.tell = [this](const std::string& words) { told_.push_back(words); };
    return flyball::submit_until_saved({{"job.sh"}, "flyball:elastic,kind=k,iterations=1,min=1,max=1", true}, options);
  }
  [[nodiscard]] std::string jobs() const { return read_text_file((folder_.path() / "jobs").string()); }
  [[nodiscard]] const std::vector<std::string>& told() const { return told_; }

 private:
  void write(const std::string& name, const std::string& text) {
    (void)folder_.file(name, text);
    std::filesystem::permissions(folder_.path() / name, std::filesystem::perms::owner_all);
  }

  TempFolder folder_;
  std::string path_before_;
  std::vector<std::string> told_;
};

TEST(SlurmSubmission, WaitsUntilTheJobMustHaveBeenSaved) {
  ScriptedSlurm slurm("", "");
  EXPECT_EQ(slurm.submit_until_saved(), 101);
  EXPECT_THAT(slurm.told(), IsEmpty());
  EXPECT_THAT(slurm.jobs(), HasSubstr("101|PENDING|flyball:elastic,kind=k,iterations=1,min=1,max=1;flyball:mark="));
}

TEST(SlurmSubmission, SubmitsAgainWhatSlurmHasForgotten) {
  // With the first look a slurmctld that knows of nothing has begun; it gives the same number to somebody else's job.
  ScriptedSlurm slurm("", "[ $n != 1 ] || echo '101|PENDING|flyball:elastic,kind=k,iterations=1,min=1,max=1' > jobs");
  EXPECT_EQ(slurm.submit_until_saved(), 102);
  EXPECT_THAT(slurm.told(), ElementsAre("Slurm has forgotten job 101, which is submitted again"));
}

TEST(SlurmSubmission, FindsAJobWhoseNumberWasNotTold) {
  ScriptedSlurm slurm("echo \"101|PENDING|$comment\" >> jobs; echo 'Zero Bytes were transmitted' >&2; exit 1", "");
  EXPECT_EQ(slurm.submit_until_saved(), 101);
  EXPECT_EQ(split_at('\n', slurm.jobs()).size(), 2U) << slurm.jobs();  // one, and what stands behind its end of line
}

TEST(SlurmSubmission, WaitsForASlurmThatIsAway) {
  const std::string away = "echo 'Unable to contact slurm controller' >&2; exit 1";
  ScriptedSlurm slurm("[ $n -gt 3 ] || { " + away + "; }", "[ $n -gt 5 ] || { " + away + "; }");
  // The first sbatch fails, and five looks; by then sbatch might be tried. It fails twice more, the first time after a
  // Slurm that was away.
  EXPECT_THROW((void)slurm.submit_until_saved(), CommandFailure);
  ASSERT_EQ(slurm.told().size(), 1U);
  EXPECT_THAT(slurm.told().front(), HasSubstr("Slurm does not answer, waiting for it: "));
  EXPECT_EQ(slurm.submit_until_saved(), 104);
}

TEST(SlurmSubmission, TellsWhyAJobIsRefused) {
  ScriptedSlurm slurm("echo 'Invalid qos specification' >&2; exit 1", "");
  try {
    (void)slurm.submit_until_saved();
    FAIL() << "it was submitted";
  } catch (const CommandFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("Invalid qos specification"));
  }
}

TEST(SlurmSubmission, AJobThatHasEndedIsNotSubmittedAgain) {
  // It ends, and Slurm soon knows of it no longer (MinJobAge).
  ScriptedSlurm slurm("", "[ $n = 1 ] && sed -i s/PENDING/FAILED/ jobs; [ $n -lt 3 ] || rm -f jobs");
  EXPECT_EQ(slurm.submit_until_saved(), 101);
}

}  // namespace
}  // namespace flyball
