// The child writes into files in memory, so that nothing but its end need be waited for.
#include "controller/command_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/monotonic_time.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::size_t kMostReason = 500;  // bytes of standard error that a message quotes

// A file in memory for one of the child's outputs.
class OutputFile {
 public:
  OutputFile() : file_(::memfd_create("flyball-output", MFD_CLOEXEC)) {
    if (file_.get() < 0) throw CommandFailure(fmt::format("no memory for an output: {}", std::strerror(errno)));
  }
  [[nodiscard]] int get() const { return file_.get(); }
  void read(std::string& text) const;

 private:
  FileDescriptor file_;
};

void OutputFile::read(std::string& text) const {
  struct stat about {};
  if (::fstat(file_.get(), &about) != 0) {
    throw CommandFailure(fmt::format("cannot read an output: {}", std::strerror(errno)));
  }
  const auto size = static_cast<std::size_t>(about.st_size);
  if (text.capacity() < size) text.reserve(size + size / 8);  // the next one may be a little longer
  text.resize(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t count = ::pread(file_.get(), text.data() + at, size - at, static_cast<off_t>(at));
    if (count < 0) throw CommandFailure(fmt::format("cannot read an output: {}", std::strerror(errno)));
    if (count == 0) return text.resize(at);
    at += static_cast<std::size_t>(count);
  }
}

pid_t spawn(const std::vector<std::string>& command, const OutputFile& output, const OutputFile& errors) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  pid_t child = -1;
  const int failure = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure == 0) return child;
  throw CommandFailure(fmt::format("cannot run {}: {}", command.front(), std::strerror(failure)));
}

// Waits for the child's end and returns its status; kills it where that takes too long, and sets `late`.
int end_of(pid_t child, Seconds limit, bool& late) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Nanoseconds end = monotonic_now() + to_nanoseconds(limit);
  pollfd waiting{process.get(), POLLIN, 0};
  int ready = -1;
  while (ready < 0) {
    const Nanoseconds left = std::max<Nanoseconds>(end - monotonic_now(), 0);
    ready = ::poll(&waiting, 1, static_cast<int>(left / 1'000'000));
    if (ready < 0 && errno != EINTR) ready = 0;
  }
  late = ready == 0;
  if (late) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void read_command_output(const std::vector<std::string>& command, Seconds limit, std::string& text) {
  const std::string shown = fmt::format("{}", fmt::join(command, " "));
  const OutputFile output;
  const OutputFile errors;
  bool late = false;
  const int status = end_of(spawn(command, output, errors), limit, late);
  if (late) throw CommandFailure(fmt::format("{} did not answer in {} s", shown, limit.value()));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output.read(text);
  std::string said;
  errors.read(said);
  const std::string_view reason = trim(std::string_view(said).substr(0, kMostReason), " \t\r\n");
  throw CommandFailure(fmt::format(
      "{} failed ({}){}{}", shown,
      WIFEXITED(status) ? fmt::format("status {}", WEXITSTATUS(status)) : fmt::format("signal {}", WTERMSIG(status)),
      reason.empty() ? "" : ": ", reason));
}

std::string command_output(const std::vector<std::string>& command, Seconds limit) {
  std::string text;
  read_command_output(command, limit, text);
  return text;
}

}  // namespace flyball
