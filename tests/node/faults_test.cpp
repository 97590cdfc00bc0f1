// What can go wrong on a node, with the real program on simulated GPUs: after each, every GPU is at its defaults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <nlohmann/json.hpp>

#include "client/agent_client.h"
#include "sim/simulated.h"
#include "support/agent_process.h"
#include "support/scratch_folder.h"

namespace flyball {
namespace {

using testing::AgentProcess;
using ::testing::HasSubstr;
using testing::ScratchFolder;
using testing::SimulatedMachine;
using testing::wait_until;

constexpr double kTimeScale = 20.0;  // a clock change takes half a millisecond
constexpr std::size_t kGpus = 4;

// A node: simulated GPUs and the agent that owns them.
class Node {
 public:
  explicit Node(std::vector<std::string> arguments = {})
      : machine("a100", kGpus, kTimeScale), agent(machine.name(), folder.path(), std::move(arguments)) {}

  [[nodiscard]] bool at_default(std::size_t gpu) const {
    BoardAccess access(*machine, gpu);
    const BoardSettings asked = access.state().requested;
    const Watts limit = access.spec().limit;
    access.commit();
    return asked.lock_maximum.value() == 0 && asked.memory_lock_maximum.value() == 0 &&
           (asked.power_limit.value() == 0 || asked.power_limit == limit);
  }
  [[nodiscard]] bool all_at_default() const {
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      if (!at_default(gpu)) return false;
    }
    return true;
  }
  [[nodiscard]] bool become_default() const {
    return wait_until([this] { return all_at_default(); });
  }
  void fault(std::size_t gpu, const std::string& words) const {
    ASSERT_TRUE(do_fault(*machine, gpu, *parse_fault(words)));
  }
  void mend(std::size_t gpu) const { take_faults_back(*machine, gpu); }

  ScratchFolder folder;
  SimulatedMachine machine;
  AgentProcess agent;
};

LeaseRequest all_gpus() {
  LeaseRequest request;
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) request.gpus.push_back(gpu);
  return request;
}

constexpr ClockBounds kSlow{Megahertz(1005), Megahertz(1005)};

void slow_down(AgentLease& lease) {
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
    lease.lock_sm_clocks(gpu, kSlow);
    lease.set_power_limit(gpu, Watts(200));
  }
}

// A child process that holds all GPUs. Runs `work` with its lease over and over, until that throws.
class HolderProcess {
 public:
  HolderProcess(const Endpoint& endpoint, const std::function<void(AgentLease&)>& work) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ready[0]);
      run(endpoint, work, ready[1]);
    }
    ::close(ready[1]);
    char byte = 0;
    holds_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  ~HolderProcess() {
    if (pid_ > 0) kill();
  }
  HolderProcess(const HolderProcess&) = delete;
  HolderProcess& operator=(const HolderProcess&) = delete;

  [[nodiscard]] bool holds() const { return holds_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    signal(SIGKILL);
    wait();
  }
  void wait() {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void run(const Endpoint& endpoint, const std::function<void(AgentLease&)>& work, int ready) {
    try {
      AgentLease lease = AgentClient(endpoint, "").lease(all_gpus());
      slow_down(lease);
      if (::write(ready, "!", 1) != 1) ::_exit(2);
      while (lease.lost().empty()) work(lease);
    } catch (const std::exception&) {
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  bool holds_ = false;
};

void only_hold(AgentLease&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

void change_clocks(AgentLease& lease) {
  static unsigned count = 0;
  const double mhz = 1410.0 - 15.0 * (count++ % 40);
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) lease.lock_sm_clocks(gpu, {Megahertz(mhz), Megahertz(mhz)});
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Faults, AKilledHolderLeavesNoClockBehind) {
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  EXPECT_FALSE(node.at_default(0));
  const auto begin = std::chrono::steady_clock::now();
  holder.kill();
  EXPECT_TRUE(node.become_default());
  RecordProperty("seconds_to_default", std::to_string(seconds_since(begin)));
  EXPECT_TRUE(wait_until([&] { return AgentClient(node.agent.endpoint(), "").leases().empty(); }));
}

TEST(Faults, AStoppedHolderLosesItsLease) {
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  const auto begin = std::chrono::steady_clock::now();
  holder.signal(SIGSTOP);  // alive, connected, silent
  EXPECT_TRUE(node.become_default());
  RecordProperty("seconds_to_default", std::to_string(seconds_since(begin)));
  EXPECT_THAT(node.agent.log(), HasSubstr("why=silent"));
}

// A closed terminal (SIGHUP) is as good an end as any other.
TEST(Faults, TheAgentRestoresBeforeItExits) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    SCOPED_TRACE(signal);
    Node node;
    node.agent.start();
    HolderProcess holder(node.agent.endpoint(), only_hold);
    ASSERT_TRUE(holder.holds());
    EXPECT_EQ(node.agent.kill(signal), 0);
    EXPECT_TRUE(node.all_at_default());
    EXPECT_TRUE(std::filesystem::is_empty(node.agent.state_folder()) ||
                std::distance(std::filesystem::directory_iterator(node.agent.state_folder()), {}) == 1)
        << "nothing but the lock is left of the journal";
  }
}

TEST(Faults, AgentKilledAtAHundredRandomMoments) {
  Node node;
  std::mt19937 random(20261120);
  std::uniform_int_distribution<int> microseconds(0, 30'000);
  int dirty = 0;
  node.agent.start();
  for (int i = 0; i < 100; ++i) {
    HolderProcess holder(node.agent.endpoint(), change_clocks);
    ASSERT_TRUE(holder.holds()) << "round " << i << ": " << node.agent.log();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    node.agent.kill(SIGKILL);
    holder.wait();
    if (!node.all_at_default()) ++dirty;
    node.agent.start();
    ASSERT_TRUE(node.become_default()) << "round " << i << ": " << node.agent.log();
  }
  EXPECT_GT(dirty, 90) << "a kill that leaves nothing to restore tests nothing";
}

TEST(Faults, AnAgentKilledWhileItRestoresIsFollowedByOneThatDoes) {
  Node node;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> microseconds(0, 4'000);
  node.agent.start();
  for (int i = 0; i < 20; ++i) {
    HolderProcess holder(node.agent.endpoint(), only_hold);
    ASSERT_TRUE(holder.holds());
    holder.kill();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    node.agent.kill(SIGKILL);
    node.agent.start();
    ASSERT_TRUE(node.become_default()) << "round " << i << ": " << node.agent.log();
  }
}

TEST(Faults, AFullDiskGrantsNothing) {
  Node node;
  node.agent.start([] { ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO); });
  const rlimit nothing{0, 0};
  ASSERT_EQ(::prlimit(node.agent.pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
  AgentClient client(node.agent.endpoint(), "");
  try {
    static_cast<void>(client.lease(all_gpus()));
    FAIL() << "a lease was granted without a journal";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 507u);
    EXPECT_THAT(refusal.what(), HasSubstr("cannot write the journal"));
  }
  EXPECT_TRUE(client.leases().empty());
  HttpClient http(node.agent.endpoint());
  EXPECT_EQ(
      http.request("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=1005&max_clock_mhz=1005&block=true")
          .status,
      507u);
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, ADriverThatRefusesLeavesTheRestAlone) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  node.fault(0, "error:nvmlDeviceSetGpuLockedClocks=4");  // no permission
  node.fault(1, "error:nvmlDeviceSetGpuLockedClocks=999");
  for (const auto& [gpu, status] : {std::pair<std::size_t, unsigned>{0, 403}, {1, 500}}) {
    try {
      lease.lock_sm_clocks(gpu, kSlow);
      ADD_FAILURE() << "GPU " << gpu << " took a clock";
    } catch (const AgentRefusal& refusal) {
      EXPECT_EQ(refusal.status(), status) << refusal.what();
    }
  }
  lease.lock_sm_clocks(2, kSlow);
  EXPECT_FALSE(node.at_default(2));
  lease.release();
  EXPECT_TRUE(node.all_at_default());
}

TEST(Faults, AResetThatFailsIsRepeatedUntilItWorks) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  slow_down(lease);
  node.fault(3, "error:nvmlDeviceResetGpuLockedClocks=999");
  EXPECT_THROW(lease.release(), AgentRefusal);
  EXPECT_TRUE(wait_until([&] { return node.at_default(0) && node.at_default(1) && node.at_default(2); }));
  EXPECT_FALSE(node.at_default(3));
  node.mend(3);
  EXPECT_TRUE(node.become_default());
}

TEST(Faults, ADriverThatHangsHoldsUpItsGpuOnly) {
  Node node;
  node.agent.start();
  AgentClient client(node.agent.endpoint(), "");
  AgentLease lease = client.lease(all_gpus());
  slow_down(lease);
  node.fault(0, "hang:nvmlDeviceSetGpuLockedClocks=600");
  try {
    lease.lock_sm_clocks(0, {Megahertz(900), Megahertz(900)});
    ADD_FAILURE() << "the call came back";
  } catch (const AgentRefusal& refusal) {
    EXPECT_EQ(refusal.status(), 504u) << refusal.what();
  }
  lease.lock_sm_clocks(1, {Megahertz(900), Megahertz(900)});
  EXPECT_TRUE(wait_until([&] {
    const NodeStatus status = client.devices();
    return status.gpus[0].health == GpuHealth::kUnwell && status.gpus[1].health == GpuHealth::kWell;
  }));
  EXPECT_THROW(lease.release(), AgentRefusal);
  EXPECT_TRUE(wait_until([&] { return node.at_default(1) && node.at_default(2) && node.at_default(3); }));
  node.mend(0);
  EXPECT_TRUE(node.become_default());
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kWell; }));
}

TEST(Faults, AnAgentThatEndsWhileADriverHangsLeavesItToTheNext) {
  Node node;
  node.agent.start();
  AgentLease lease = AgentClient(node.agent.endpoint(), "").lease(all_gpus());
  slow_down(lease);
  node.fault(0, "hang:nvmlDeviceResetGpuLockedClocks=600");
  EXPECT_EQ(node.agent.kill(SIGTERM), 1);
  EXPECT_TRUE(node.at_default(1) && node.at_default(2) && node.at_default(3));
  EXPECT_FALSE(node.at_default(0));
  EXPECT_THAT(node.agent.log(), HasSubstr("event=left_unrestored gpu=0"));
  node.mend(0);
  node.agent.start();
  EXPECT_TRUE(node.become_default());
}

TEST(Faults, ALostGpuTakesItsLeaseWithIt) {
  Node node;
  node.agent.start();
  AgentClient client(node.agent.endpoint(), "");
  LeaseRequest pair;
  pair.gpus = {0, 1};
  LeaseRequest single;
  single.gpus = {2};
  AgentLease both = client.lease(pair);
  AgentLease other = client.lease(single);
  both.lock_sm_clocks(0, kSlow);
  both.lock_sm_clocks(1, kSlow);
  other.lock_sm_clocks(2, kSlow);
  node.fault(0, "lost");
  EXPECT_TRUE(wait_until([&] { return node.at_default(1); }));
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kLost; }));
  EXPECT_FALSE(node.at_default(2));
  EXPECT_EQ(other.lost(), "");
  node.mend(0);
  EXPECT_TRUE(wait_until([&] { return client.devices().gpus[0].health == GpuHealth::kWell; }));
  other.release();
  EXPECT_TRUE(node.become_default());
}

// --- Clients that do not behave ------------------------------------------------------------------------------------

class RawConnection {
 public:
  explicit RawConnection(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() {
    if (socket_ >= 0) ::close(socket_);
  }
  RawConnection(RawConnection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view bytes) const {
    ASSERT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // All until the other end closes.
  [[nodiscard]] std::string read_all() const {
    std::string all;
    char block[4096];
    ssize_t count = 0;
    while ((count = ::read(socket_, block, sizeof block)) > 0) all.append(block, static_cast<std::size_t>(count));
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

TEST(Faults, TenThousandIdleConnectionsDoNotKeepTheAgentFromAnswering) {
  constexpr rlim_t kWanted = 10'000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kWanted + 500) {
    GTEST_SKIP() << "this process may open " << limit.rlim_max << " files; the test needs " << kWanted + 500;
  }
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
  Node node;
  node.agent.start();
  HolderProcess holder(node.agent.endpoint(), only_hold);
  ASSERT_TRUE(holder.holds());
  std::vector<RawConnection> idle;
  for (rlim_t i = 0; i < kWanted; ++i) {
    idle.emplace_back(node.agent.endpoint().socket_path);
    ASSERT_TRUE(idle.back().connected()) << "connection " << i;
  }
  const auto begin = std::chrono::steady_clock::now();
  AgentClient client(node.agent.endpoint(), "");
  EXPECT_EQ(client.leases().size(), 1u) << "the holder's heartbeats got through";
  EXPECT_LT(seconds_since(begin), 1.0);
  EXPECT_TRUE(wait_until([&] {
    return client.metrics().find("flyball_agent_connections_total 100") != std::string::npos;
  })) << client.metrics();
  idle.clear();
  holder.kill();
  EXPECT_TRUE(node.become_default());
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(Faults, SlowAndBrokenClientsAreClosedAndOthersServed) {
  Node node;
  node.agent.start();
  const std::string path = node.agent.endpoint().socket_path;
  const RawConnection half(path);
  half.send("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Le");  // never ends
  for (const std::string_view bad : {"\r\n\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                                     "GET /\x01 HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                                     "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                     "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                                     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS"}) {
    const RawConnection connection(path);
    connection.send(bad);
    EXPECT_THAT(connection.read_all(), ::testing::StartsWith("HTTP/1.1 400 Bad Request\r\n")) << bad;
  }
  const RawConnection large(path);
  large.send("POST /v1/leases HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_THAT(large.read_all(), HasSubstr("413 Content Too Large"));
  const RawConnection long_header(path);
  long_header.send("GET / HTTP/1.1\r\nA: " + std::string(20'000, 'a'));
  EXPECT_THAT(long_header.read_all(), HasSubstr("431 "));
  HolderProcess holder(node.agent.endpoint(), only_hold);
  EXPECT_TRUE(holder.holds());
  holder.kill();
  EXPECT_TRUE(node.become_default());
}

// --- zeusd's interface ---------------------------------------------------------------------------------------------

TEST(Faults, AProcessThatSetsClocksThroughZeusdsInterfaceLeavesNoneBehind) {
  Node node;
  node.agent.start();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    HttpClient http(node.agent.endpoint());
    const Response set =
        http.request("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=0,2&min_clock_mhz=210&max_clock_mhz=1005&block=true");
    http.disconnect();  // unlike a lease of /v1, this one needs no connection
    char status = set.status == 200 ? '+' : '-';
    if (::write(ready[1], &status, 1) != 1) ::_exit(2);
    ::pause();
  }
  char status = 0;
  ASSERT_EQ(::read(ready[0], &status, 1), 1);
  EXPECT_EQ(status, '+');
  EXPECT_FALSE(node.at_default(0));
  EXPECT_TRUE(node.at_default(1));
  EXPECT_FALSE(node.at_default(2));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_TRUE(node.become_default());
}

}  // namespace
}  // namespace flyball
