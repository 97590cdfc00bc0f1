// Runs the real program and keeps what it printed.
#pragma once

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace flyball::testing {

inline constexpr const char* kBertProfile = "examples/profiles/bert-1.3b-a100-4stage.csv";

struct Ran {
  int status = -1;  // exit status; 128 + signal when killed by one
  std::string out;
  std::string err;

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Relative path -> contents of all files below.
inline std::map<std::string, std::string> folder_contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) contents[entry.path().lexically_relative(folder).string()] = file_text(entry.path());
  }
  return contents;
}

[[noreturn]] inline void exec_flyball(const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>("flyball")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(FLYBALL_PROGRAM, argv.data());
  ::_exit(127);
}

// A program that has not ended after two minutes is killed, so that a test fails rather than hangs.
inline int wait_for(pid_t child) {
  constexpr int kTenthsOfASecond = 1200;
  int state = 0;
  for (int waited = 0; ::waitpid(child, &state, WNOHANG) == 0; ++waited) {
    if (waited == kTenthsOfASecond) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(waited < 100 ? 5 : 100));
  }
  return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

// A program under way with its output in files.
class Running {
 public:
  Running(const std::vector<std::string>& arguments, const std::filesystem::path& input,
          const std::filesystem::path& folder) {
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(::open(input.c_str(), O_RDONLY), STDIN_FILENO);
      redirect("out", O_WRONLY | O_CREAT, STDOUT_FILENO);
      redirect("err", O_WRONLY | O_CREAT, STDERR_FILENO);
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
      exec_flyball(arguments);
    }
  }

  [[nodiscard]] pid_t pid() const { return child_; }
  void interrupt() const { ::kill(child_, SIGINT); }
  void terminate() const { ::kill(child_, SIGTERM); }

  // Whether the program has begun to handle Ctrl-C by itself; waits for that, for a minute at most.
  [[nodiscard]] bool handles_interrupt() const {
    constexpr unsigned long long kMask = 1ULL << (SIGINT - 1);
    const std::string label = "SigCgt:";
    for (int waited = 0; waited < 6000; ++waited) {
      const std::string status = file_text("/proc/" + std::to_string(child_) + "/status");
      const std::size_t caught = status.find(label);
      if (caught == std::string::npos || status.find("State:\tZ") != std::string::npos) return false;  // it has ended
      if ((std::stoull(status.substr(caught + label.size()), nullptr, 16) & kMask) != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  [[nodiscard]] Ran wait() const {
    const int status = wait_for(child_);
    return {status, file_text(files_ / "out"), file_text(files_ / "err")};
  }

 private:
  void redirect(const std::string& name, int flags, int descriptor) const {
    ::dup2(::open((files_ / name).c_str(), flags, 0600), descriptor);
  }

  TempFolder files_;
  pid_t child_ = -1;
};

// `folder` is the working folder (default: the repository's root, where examples/ is).
inline Ran run_flyball(const std::vector<std::string>& arguments, const std::string& input = "",
                       const std::filesystem::path& folder = FLYBALL_SOURCE_DIR) {
  const TempFolder files;
  write_file(files / "in", input);
  return Running(arguments, files / "in", folder).wait();
}

// With this file as standard input.
inline Ran run_flyball_on(const std::vector<std::string>& arguments, const std::filesystem::path& input) {
  return Running(arguments, input, FLYBALL_SOURCE_DIR).wait();
}

// Sends Ctrl-C's signal so many seconds after the program has begun to handle it.
inline Ran run_interrupted(const std::vector<std::string>& arguments, double seconds,
                           const std::filesystem::path& input = "/dev/null") {
  const Running running(arguments, input, FLYBALL_SOURCE_DIR);
  if (!running.handles_interrupt()) throw std::runtime_error("the program does not handle Ctrl-C");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  running.interrupt();
  return running.wait();
}

// With a terminal of 80 columns as standard output and error; `out` holds both. `environment` adds to the caller's.
inline Ran run_on_terminal(const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& environment = {}) {
  winsize size{24, 80, 0, 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::unsetenv("NO_COLOR");
    ::setenv("TERM", "xterm", 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (::chdir(FLYBALL_SOURCE_DIR) != 0) ::_exit(126);
    exec_flyball(arguments);
  }
  Ran ran;
  std::array<char, 4096> block{};
  ssize_t count = 0;
  while ((count = ::read(terminal, block.data(), block.size())) > 0) {
    ran.out.append(block.data(), static_cast<std::size_t>(count));
  }
  ::close(terminal);
  ran.status = wait_for(child);
  return ran;
}

}  // namespace flyball::testing
