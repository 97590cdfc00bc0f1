// The real program `flyball agent` on simulated GPUs, as a process of its own that can be killed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "net/client.h"

namespace flyball::testing {

class AgentProcess {
 public:
  // `machine` is the simulated machine's name; socket, state and log lie below `folder`.
  AgentProcess(std::string machine, std::string folder, std::vector<std::string> arguments = {})
      : machine_(std::move(machine)), folder_(std::move(folder)), arguments_(std::move(arguments)) {}
  ~AgentProcess() {
    if (pid_ > 0) kill(SIGKILL);
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Returns when it answers. `prepare` runs in the child before the program.
  void start(const std::function<void()>& prepare = {}) {
    launch(prepare);
    HttpClient http(endpoint());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      try {
        if (http.request("GET", "/healthz").status == 200) return;
      } catch (const SystemError&) {
        if (std::chrono::steady_clock::now() > end) throw;
      }
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error("the agent ended: " + log());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  // Its exit status, or 128 + the signal's number.
  int kill(int signal) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  [[nodiscard]] Endpoint endpoint() const { return parse_endpoint(folder_ + "/agent.sock"); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string state_folder() const { return folder_ + "/state"; }
  [[nodiscard]] std::string log() const {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  void launch(const std::function<void()>& prepare) {
    const std::string log = folder_ + "/log";
    const std::string socket = folder_ + "/agent.sock";
    const std::string state = state_folder();
    const std::string library = std::filesystem::path(FLYBALL_PROGRAM).parent_path() / "sim";
    std::vector<const char*> words = {"flyball", "agent", "--socket", socket.c_str(), "--state-dir", state.c_str()};
    for (const std::string& word : arguments_) words.push_back(word.c_str());
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    ::setenv("FLYBALL_SIM", machine_.c_str(), 1);
    ::setenv("LD_LIBRARY_PATH", library.c_str(), 1);
    ::setenv("FLYBALL_SIM_PRIVILEGED", "1", 1);
    ::setenv("FLYBALL_POWERCAP_ROOT", folder_.c_str(), 1);  // none
    if (prepare) prepare();
    ::execv(FLYBALL_PROGRAM, const_cast<char* const*>(words.data()));
    ::_exit(127);
  }

  std::string machine_;
  std::string folder_;
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

}  // namespace flyball::testing
