// The agent's log: what stands in front of a line where journald reads it, and where a person does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "agent/log.h"
#include "support/temp_folder.h"

namespace flyball::testing {
namespace {

// What a child process with this file as standard error logs. `stream` gives JOURNAL_STREAM for that file's state.
template <class Stream>
std::string logged_with(const Stream& stream) {
  const TempFolder folder;
  const std::string path = folder / "log";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    struct stat own {};
    ::fstat(STDERR_FILENO, &own);
    ::setenv("JOURNAL_STREAM", stream(own).c_str(), 1);
    log_event(LogLevel::kWarning, "no_devices", {{"hint", "two words"}});
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(AgentLog, SaysTheLevelOnlyToTheJournal) {
  // systemd.exec(5): the stream's device and inode in decimal, with a colon between.
  const auto same = [](const struct stat& own) {
    return std::to_string(own.st_dev) + ":" + std::to_string(own.st_ino);
  };
  EXPECT_EQ(logged_with(same), "<4>event=no_devices hint=\"two words\"\n");
}

TEST(AgentLog, HasNoPrefixInAFileOrOnAPipe) {
  const auto other = [](const struct stat& own) { return "1" + std::to_string(own.st_dev) + ":1"; };
  EXPECT_EQ(logged_with(other), "event=no_devices hint=\"two words\"\n");
  const auto none = [](const struct stat&) { return std::string(); };
  EXPECT_EQ(logged_with(none), "event=no_devices hint=\"two words\"\n");
}

}  // namespace
}  // namespace flyball::testing
