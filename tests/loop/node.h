// A whole node on simulated GPUs: machine, agent, planning server and trainer, as processes that can be killed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

namespace flyball::testing {

inline const std::filesystem::path kBuildFolder = std::filesystem::path(FLYBALL_PROGRAM).parent_path();

// What a board draws that waits for others, at least. All that a busy machine adds to an iteration is such waiting.
inline constexpr double kWaitingWatts = 75.0;

inline bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A child process whose output goes to a file. Killed with its object.
class Child {
 public:
  Child() = default;
  Child(const std::vector<std::string>& words, const std::string& machine, std::string log) : log_(std::move(log)) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const std::string library = (kBuildFolder / "sim").string();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("FLYBALL_SIM", machine.c_str(), 1);
      setenv("LD_LIBRARY_PATH", library.c_str(), 1);
      const int file = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(file, 1);
      dup2(file, 2);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~Child() {
    if (running()) end(SIGKILL);
  }
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(log_, other.log_);
    return *this;
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
    note(status);
    return false;
  }
  // Sends the signal and waits for the end: the exit status, or 128 + the signal that it died of.
  int end(int signal) {
    if (running()) {
      ::kill(pid_, signal);
      int status = 0;
      waitpid(pid_, &status, 0);
      note(status);
    }
    return status_;
  }
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] std::string output() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  void note(int status) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pid_ = -1;
  }

  pid_t pid_ = -1;
  int status_ = -1;
  std::string log_;
};

// Simulated GPUs, so many times as fast as real ones; `ideal`: alike and exact.
class Node {
 public:
  explicit Node(int time_scale = 10, int gpus = 2, bool ideal = false) {
    std::string name = (std::filesystem::temp_directory_path() / "flyball_loop_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    machine_ = std::filesystem::path(name).filename();
    std::vector<std::string> up = {"sim",  "up",         "--gpus",    std::to_string(gpus), "--model",
                                   "a100", "--workload", "gpt3-1.3b", "--time-scale",       std::to_string(time_scale)};
    if (ideal) up.emplace_back("--ideal");
    flyball(up);
    start_agent();
    start_server();
  }
  ~Node() {
    trainer = {};
    server = {};
    agent = {};
    try {
      flyball({"sim", "down"});
    } catch (const std::runtime_error&) {
      // A machine that is not there any more is down.
    }
    std::filesystem::remove_all(folder_);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Runs flyball to its end and returns what it printed.
  std::string flyball(std::vector<std::string> words) {
    words.insert(words.begin(), FLYBALL_PROGRAM);
    const std::string log = path("flyball.log");
    std::filesystem::remove(log);
    Child child(words, machine_, log);
    if (!wait_until([&] { return !child.running(); }, std::chrono::seconds(60)) || child.status() != 0) {
      throw std::runtime_error(words[1] + ": " + child.output());
    }
    return child.output();
  }

  void start_agent() {
    agent = Child({FLYBALL_PROGRAM, "agent", "--socket", path("agent.sock"), "--state-dir", path("agent")}, machine_,
                  path("agent.log"));
  }
  void start_server() { start_server({"--socket", path("server.sock")}); }
  void start_server(const std::vector<std::string>& more) {
    std::vector<std::string> words = {FLYBALL_PROGRAM, "serve",      "--listen",
                                      "127.0.0.1:0",   "--database", path("server.db")};
    words.insert(words.end(), more.begin(), more.end());
    server = Child(words, machine_, path("server.log"));
  }
  // A short job: two stages, 0.3 s per iteration (of the GPUs' time), seven clocks.
  void start_trainer(int windows) { start_trainer({"--windows", std::to_string(windows), "--steps", "4"}); }
  // The same job by the plan that the server has of it, for good.
  void start_planned_trainer() { start_trainer({"--plan-only", "--steps", "1000000"}); }
  void start_trainer(const std::vector<std::string>& more) {
    std::filesystem::remove(path("windows.jsonl"));
    std::vector<std::string> words = {(kBuildFolder / "pipeline_trainer").string(),
                                      "--forward",
                                      "0.02,0.025",
                                      "--backward",
                                      "0.04,0.05",
                                      "--microbatches",
                                      "4",
                                      "--clock-stride",
                                      "6",
                                      "--steps-per-clock",
                                      "2",
                                      "--straggler",
                                      "1",
                                      "--job",
                                      "job",
                                      "--token",
                                      std::string(40, 't'),
                                      "--server",
                                      path("server.sock"),
                                      "--clocks",
                                      path("agent.sock"),
                                      "--json",
                                      path("windows.jsonl"),
                                      "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    trainer = Child(words, machine_, path("trainer.log"));
  }

  // What the trainer has written so far.
  [[nodiscard]] std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> records;
    std::ifstream file(path("windows.jsonl"));
    for (std::string line; std::getline(file, line) && !file.eof();) records.push_back(nlohmann::json::parse(line));
    return records;
  }
  [[nodiscard]] int windows(const std::string& name) const {
    int count = 0;
    for (const auto& record : records()) count += record.value("window", "") == name ? 1 : 0;
    return count;
  }
  [[nodiscard]] pid_t stage_process(int stage) const {
    for (const auto& record : records()) {
      if (record.contains("pid") && record.at("stage") == stage) return record.at("pid");
    }
    return -1;
  }

  [[nodiscard]] bool at_default(std::size_t gpu) {
    return nlohmann::json::parse(flyball({"sim", "status", "--format", "json"}))
        .at("gpus")
        .at(gpu)
        .at("locked")
        .get<std::string>()
        .empty();
  }
  [[nodiscard]] bool all_at_default() { return at_default(0) && at_default(1); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Child agent;
  Child server;
  Child trainer;

 private:
  std::filesystem::path folder_;
  std::string machine_;
};

}  // namespace flyball::testing
