// A planning server to test, in a thread of this process or as a process of its own, and a client that knows its words.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "base/record.h"
#include "net/client.h"
#include "net/event_loop.h"
#include "profile/synth.h"
#include "server/planning_server.h"
#include "server/store.h"
#include "support/temp_folder.h"
#include "wire/job_messages.h"

namespace flyball::testing {

inline constexpr const char* kAdministrator = "administrator-administrator-administrator";

inline PlanningServerOptions local_options(const std::string& database = {}) {
  PlanningServerOptions options;
  options.listen_port = 0;
  options.database = database;
  options.requests_per_second = 1e6;
  return options;
}

// In a thread.
class ServerThread {
 public:
  explicit ServerThread(PlanningServerOptions options = local_options())
      : server_(std::make_unique<PlanningServer>(loop_, std::move(options))),
        port_(server_->port()),
        thread_([this] { loop_.run(); }) {}
  ~ServerThread() {
    loop_.post([this] { server_->stop([this] { loop_.stop(); }); });
    thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  EventLoop loop_;
  std::unique_ptr<PlanningServer> server_;
  std::uint16_t port_;
  std::thread thread_;
};

// As a process that can be killed. Forked from a test without other threads.
class ServerProcess {
 public:
  explicit ServerProcess(const PlanningServerOptions& options) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      run(options, ends[1]);
    }
    ::close(ends[1]);
    const bool up = ::read(ends[0], &port_, sizeof port_) == sizeof port_;
    ::close(ends[0]);
    if (!up) throw std::runtime_error("the server did not start");
  }
  ~ServerProcess() { kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // As if the disk were full: no file may grow beyond this. RLIM_INFINITY gives room again.
  void limit_files(rlim_t bytes) const {
    const rlimit limit{bytes, RLIM_INFINITY};
    EXPECT_EQ(::prlimit(child_, RLIMIT_FSIZE, &limit, nullptr), 0);
  }
  void kill_only() const { ::kill(child_, SIGKILL); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  [[noreturn]] static void run(const PlanningServerOptions& options, int port_end) {
    try {
      EventLoop loop;
      PlanningServer server(loop, options);
      const std::uint16_t port = server.port();
      if (::write(port_end, &port, sizeof port) != sizeof port) ::_exit(2);
      ::close(port_end);
      loop.run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "server: %s\n", error.what());
    }
    ::_exit(1);
  }

  pid_t child_ = -1;
  std::uint16_t port_ = 0;
};

// What a rank or a person says to the server. Unless it says otherwise, a call fails the test where the server refuses.
class Client {
 public:
  explicit Client(std::uint16_t port, const std::string& token = {}, Seconds timeout = Seconds(60))
      : http_(parse_endpoint("127.0.0.1:" + std::to_string(port)),
              HttpClient::Options{timeout, token, 64u << 20u, {}}) {}

  Response ask(std::string_view method, const std::string& target, const std::string& body = {}) {
    return http_.request(method, target, body);
  }

  nlohmann::json get(const std::string& target) {
    const Response response = ask("GET", target);
    EXPECT_EQ(response.status, 200u) << target << ": " << response.body;
    return nlohmann::json::parse(response.body, nullptr, false);
  }

  nlohmann::json post(const std::string& target, const nlohmann::ordered_json& body, unsigned status = 200) {
    const Response response = ask("POST", target, body.dump());
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    return nlohmann::json::parse(response.body, nullptr, false);
  }

  JobStatus status(const std::string& job) { return read_message<JobStatus>(get("/v1/jobs/" + job)); }

  // The schedule above a version, waited for.
  // Sanitizers on a busy machine plan for minutes, and a server lets nobody wait as long as that at once.
  std::optional<RankSchedule> schedule(const std::string& job, int rank, std::int64_t after = 0, double wait = 250.0) {
    constexpr double kAtOnce = 50.0;
    const Response response = ask("GET", "/v1/jobs/" + job + "/ranks/" + std::to_string(rank) +
                                             "/schedule?after_version=" + std::to_string(after) +
                                             "&wait_s=" + std::to_string(std::min(wait, kAtOnce)));
    if (response.status == 204) {
      return wait > kAtOnce ? schedule(job, rank, after, wait - kAtOnce) : std::nullopt;
    }
    EXPECT_EQ(response.status, 200u) << response.body;
    if (response.status != 200) return std::nullopt;
    return read_message<RankSchedule>(parse_json("the answer", response.body));
  }

 private:
  HttpClient http_;
};

inline constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

inline JobRequest small_job(const std::string& id = "job", int pipelines = 1) {
  JobRequest job;
  job.id = id;
  job.token = kToken;
  job.name = "a small job";
  job.stages = 2;
  job.microbatches = 4;
  job.data_parallel = pipelines;
  job.switch_latency = Seconds(0);  // most tests are not about clock changes
  return job;
}

// Holds a store's thread between two transactions, where `post` calls in that thread: what is handed in meanwhile waits
// together.
class HeldStore {
 public:
  explicit HeldStore(Store& store) {
    store.submit(StoreBarrier{}, [this](const std::exception_ptr&) {
      held_.set_value();
      released_.get_future().wait();
    });
    held_.get_future().wait();
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> held_;
  std::promise<void> released_;
};

// Ranks are numbered stage by stage within their pipeline; one tensor rank per stage.
inline RankRequest rank_of(const JobRequest& job, int rank) {
  return {rank, rank / job.stages, rank % job.stages, 0, {}};
}

// One stage of the shipped synthetic GPT-3 1.3B on A100s, as reports of one rank, one clock each.
inline std::vector<MeasurementReport> reports_of(const JobRequest& job, int rank, int clocks = 20) {
  SynthRequest synth;
  synth.stages = job.stages;
  const Profile profile = synthesize_profile(synth).profile;
  std::vector<MeasurementReport> reports(static_cast<std::size_t>(clocks));
  const int stage = rank_of(job, rank).pp_rank;
  // Of an engine with backwards in two parts, each is a half.
  using Instruction = std::tuple<const char*, const char*, double>;
  std::vector<Instruction> instructions = {{"forward", "forward", 1.0}, {"backward", "backward", 1.0}};
  if (job.schedule == "zb-h1") {
    instructions = {
        {"forward", "forward", 1.0}, {"backward_input", "backward", 0.5}, {"backward_weight", "backward", 0.5}};
  }
  for (const auto& [name, like, share] : instructions) {
    const auto& options = profile.find(stage, like)->options;
    for (std::size_t i = 0; i < reports.size() && i < options.size(); ++i) {
      reports[i].rank = rank;
      reports[i].sequence = static_cast<std::int64_t>(i);
      reports[i].measurements.push_back(
          {name, options[i].frequency, share * options[i].time, share * options[i].energy, 5});
    }
  }
  return reports;
}

// A job with all its ranks, measured and done. Where `microbatches` has how many fit on each stage, its ranks say so in
// bytes, and have some bytes to spare.
inline void run_profiling(Client& client, const JobRequest& job, const std::vector<int>& microbatches = {}) {
  const std::string path = "/v1/jobs/" + job.id;
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < job.ranks(); ++rank) {
    RankRequest says = rank_of(job, rank);
    if (!microbatches.empty()) {
      says.microbatch_bytes = 1000;
      says.activation_bytes = 1000 * microbatches[static_cast<std::size_t>(says.pp_rank)] + 999;
    }
    client.post(path + "/ranks", to_json(says), 201);
  }
  for (int rank = 0; rank < job.ranks(); ++rank) {
    for (const auto& report : reports_of(job, rank)) client.post(path + "/measurements", to_json(report));
    const Response done = client.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}");
    EXPECT_EQ(done.status, 204u) << done.body;
  }
}

}  // namespace flyball::testing
