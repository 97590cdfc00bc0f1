// A simulated machine shared by threads and processes, some of which are killed.
#include "sim/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "flyball/sim.h"
#include "sim/simulated.h"
#include "sim/workload.h"
#include "support/expect_error.h"

namespace flyball::testing {
namespace {

// A child process, killed at the latest with its test.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Dead, but its parent has not asked: a zombie.
  void kill_without_burial() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  // Exit status; -1 when it was killed by a signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

int running_works(const BoardState& state) {
  int running = 0;
  for (const SimWork& work : state.works) running += work.state == WorkState::kRunning ? 1 : 0;
  return running;
}
int processes(const BoardState& state) {
  int count = 0;
  for (const SimProcess& process : state.processes) count += process.pid != 0 ? 1 : 0;
  return count;
}

TEST(Machine, IsSeenByNameUntilItIsTakenDown) {
  const std::string name = unique_machine_name();
  EXPECT_EQ(Machine::open(name), nullptr);
  EXPECT_FALSE(Machine::remove(name));
  MachineRequest request;
  request.gpus = 3;
  const auto made = Machine::create(name, specify_machine(request));
  EXPECT_THROW(Machine::create(name, specify_machine(request)), MachineExists);
  const auto seen = Machine::open(name);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->board_count(), 3u);
  EXPECT_TRUE(Machine::remove(name));
  EXPECT_TRUE(seen->down());
  EXPECT_TRUE(made->down());
  EXPECT_EQ(Machine::open(name), nullptr);
}

TEST(Machine, RefusesNamesThatAreNoFileNames) {
  expect_usage_error([] { (void)machine_path("a/b"); }, "a simulated machine cannot be called 'a/b'");
  EXPECT_EQ(machine_path(""), "/flyball-sim");
  EXPECT_EQ(machine_path("x"), "/flyball-sim-x");
}

TEST(Machine, RefusesRequestsOutOfRange) {
  MachineRequest request;
  request.gpus = 17;
  expect_usage_error([&] { (void)specify_machine(request); }, "1 to 16 GPUs, not 17");
  request.gpus = 1;
  request.gpu = "tpu";
  expect_usage_error([&] { (void)specify_machine(request); }, "unknown GPU 'tpu'");
  request.gpu = "a100";
  request.workload = "doom";
  expect_usage_error([&] { (void)specify_machine(request); }, "unknown workload 'doom'");
}

TEST(Machine, EveryShippedModelHasABoard) {
  for (const std::string gpu :
       {"v100", "a100-pcie", "a100-sxm", "a40", "h100-sxm", "h200-sxm", "b200", "gb200", "rtx3090"}) {
    SCOPED_TRACE(gpu);
    MachineRequest request;
    request.gpu = gpu;
    request.gpus = 16;
    const MachineSpec spec = specify_machine(request);
    for (const BoardSpec& board : spec.boards) {
      EXPECT_LT(board.idle, board.waiting);
      EXPECT_LT(board.limit_minimum, board.limit);
      EXPECT_GE(board.limit_maximum, board.limit);
      EXPECT_LT(board.full_celsius, board.slowdown_celsius);
      EXPECT_EQ(supported_clock(board, board.throttle), board.throttle);
      EXPECT_EQ(board.sensor_phase % kSimHistoryStep, 0);
      EXPECT_LT(board.sensor_phase, board.power.period);
    }
    EXPECT_STRNE(spec.boards[0].uuid, spec.boards[1].uuid);
    EXPECT_STRNE(spec.boards[0].pci_bus_id, spec.boards[1].pci_bus_id);
  }
}

TEST(Machine, AWorkloadBringsItsOwnWork) {
  MachineRequest request;
  request.gpu = "a40";
  const double general = specify_machine(request).boards[0].backward.compute.value();
  request.workload = "gpt3-1.3b";
  EXPECT_NE(specify_machine(request).boards[0].backward.compute.value(), general);
}

TEST(Machine, WorkEndsWhenTimeSaysSo) {
  const SimulatedMachine machine;
  WorkRun run;
  std::thread worker([&] { run = do_work(*machine, 0, machine->spec(0).forward, Seconds(3)); });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state()) == 1; }));
  machine->add_time(kSecond);
  EXPECT_EQ(running_works(machine.state()), 1);
  machine->add_time(5 * kSecond);
  worker.join();
  EXPECT_EQ(run.result, WorkResult::kDone);
  EXPECT_NEAR(to_seconds(run.end - run.begin).value(), 3.0, 2e-9);  // not when the worker woke up
}

TEST(Machine, AClockChangeReachesWorkUnderWay) {
  const SimulatedMachine machine;
  WorkRun run;
  const Activity compute{1.0, Watts(100), Watts(0)};
  std::thread worker([&] { run = do_work(*machine, 0, compute, Seconds(1)); });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state()) == 1; }));
  machine->add_time(kSecond / 2);
  {
    BoardAccess access(*machine, 0);
    access.state().requested.lock_maximum = access.state().requested.lock_minimum = Megahertz(705);
    access.state().effective_at = access.state().now + access.spec().switch_latency;
    access.commit_change();
  }
  machine->add_time(2 * kSecond);
  worker.join();
  EXPECT_NEAR(to_seconds(run.end - run.begin).value(), 0.51 + 0.98, 4e-9);
}

TEST(Machine, ScaledTimeRunsFaster) {
  const SimulatedMachine machine("a100", 1, 100.0);
  const Nanoseconds before = wall_now();
  const WorkRun run = do_work(*machine, 0, machine->spec(0).forward, Seconds(5));
  const Nanoseconds wall = wall_now() - before;
  EXPECT_NEAR(to_seconds(run.end - run.begin).value(), 5.0, 2e-9);
  EXPECT_GE(wall, 50'000'000);  // 5 s at a hundredfold
  EXPECT_LT(wall, 4 * kSecond);
  EXPECT_GE(machine->now(), run.end);
}

TEST(Machine, ThreadsAndProcessesShareABoardWithoutLosingWork) {
  const SimulatedMachine machine("a100", 2, 50.0);
  constexpr int kChildren = 4;
  constexpr int kPieces = 20;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      for (int piece = 0; piece < kPieces; ++piece) {
        if (flyball_sim_work(0, "forward", 0.05, nullptr) != FLYBALL_SIM_OK) ::_exit(1);
      }
    }));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int piece = 0; piece < kPieces; ++piece) {
        EXPECT_EQ(flyball_sim_work(1, "backward", 0.05, nullptr), FLYBALL_SIM_OK);
      }
    });
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  for (std::thread& thread : threads) thread.join();
  // Slices of time add up to the work itself, however the pieces lay.
  EXPECT_NEAR(machine.state(0).busy_seconds.value(), kChildren * kPieces * 0.05, 1e-5);
  EXPECT_NEAR(machine.state(1).busy_seconds.value(), 2 * kPieces * 0.05, 1e-5);
  const BoardSpec& spec = machine->spec(0);
  const BoardState state = machine.state(0);
  const Watts working = pace_of(spec.curve(), spec.forward, {spec.phase_limit, spec.phase_limit}, 1410).mean_power();
  const double idle_seconds = to_seconds(state.now).value() - state.busy_seconds.value();
  EXPECT_NEAR(state.joules.value(), working.value() * state.busy_seconds.value() + 45 * idle_seconds, 1e-3);
  EXPECT_TRUE(wait_until([&] { return processes(machine.state(0)) == 0; }));  // they have all gone home
}

TEST(Machine, AProcessKilledWhileItHoldsABoardLeavesAWholeState) {
  const SimulatedMachine machine;
  machine->add_time(kSecond);
  const double joules = machine.state().joules.value();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Child child([&] {
    BoardAccess access(*machine, 0);
    std::memset(static_cast<void*>(&access.state()), 0xA5, sizeof(BoardState));  // half a change
    (void)!::write(ready[1], "x", 1);
    ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  child.kill();
  EXPECT_EQ(machine.state().joules.value(), joules);
  machine->add_time(kSecond);
  EXPECT_NEAR(machine.state().joules.value(), joules + 45, 1e-9);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(Machine, AKilledProcessTakesItsWorkAndItsWaitingAlong) {
  const SimulatedMachine machine("a100", 2);
  Child worker([] { flyball_sim_work(0, "forward", 1e5, nullptr); });
  Child waiter([] {
    flyball_sim_block(1);
    ::pause();
  });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state(0)) == 1 && processes(machine.state(1)) == 1; }));
  EXPECT_EQ(activity_of(machine->spec(1), machine.state(1)).power, Watts(136));
  worker.kill_without_burial();  // a zombie is dead, too
  waiter.kill();
  EXPECT_TRUE(wait_until([&] { return running_works(machine.state(0)) == 0 && processes(machine.state(0)) == 0; }));
  EXPECT_TRUE(wait_until([&] { return activity_of(machine->spec(1), machine.state(1)).power == Watts(45); }));
}

TEST(Machine, ThoseWhoShareWithAKilledProcessFinishEarlier) {
  const SimulatedMachine machine;
  Child other([] { flyball_sim_work(0, "forward", 1e5, nullptr); });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state()) == 1; }));
  WorkRun run;
  std::thread worker([&] { run = do_work(*machine, 0, machine->spec(0).forward, Seconds(2)); });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state()) == 2; }));
  machine->add_time(2 * kSecond);  // half of it is done
  ASSERT_EQ(running_works(machine.state()), 2);
  other.kill();
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state()) == 1; }));
  machine->add_time(2 * kSecond);
  worker.join();
  EXPECT_NEAR(to_seconds(run.end - run.begin).value(), 3.0, 4e-9);
}

TEST(Machine, SurvivesProcessesKilledAtRandomMoments) {
  const SimulatedMachine machine("a100", 1, 20.0);
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    Child child([] {
      double joules = 0;
      while (true) {
        flyball_sim_work(0, "forward", 0.001, nullptr);
        flyball_sim_block(0);
        flyball_sim_true_energy(0, &joules, nullptr);
        flyball_sim_unblock(0);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    child.kill();
    double joules = 0;
    double seconds = 0;
    ASSERT_EQ(flyball_sim_true_energy(0, &joules, &seconds), FLYBALL_SIM_OK);
    EXPECT_GE(joules, 45 * seconds - 1e-3);  // idle is the least, 300 W the most
    EXPECT_LE(joules, 300 * seconds);
  }
  EXPECT_TRUE(wait_until([&] { return processes(machine.state()) == 0; }));
  EXPECT_EQ(flyball_sim_work(0, "forward", 0.001, nullptr), FLYBALL_SIM_OK);
}

TEST(Machine, WorkEndsInAnErrorWhenTheBoardIsLostOrTheMachineGoes) {
  const SimulatedMachine machine("a100", 2);
  WorkRun lost;
  WorkRun gone;
  std::thread first([&] { lost = do_work(*machine, 0, machine->spec(0).forward, Seconds(1)); });
  std::thread second([&] { gone = do_work(*machine, 1, machine->spec(1).forward, Seconds(1)); });
  ASSERT_TRUE(wait_until([&] { return running_works(machine.state(0)) + running_works(machine.state(1)) == 2; }));
  EXPECT_EQ(flyball_sim_fault(0, "lost"), FLYBALL_SIM_OK);
  first.join();
  EXPECT_EQ(lost.result, WorkResult::kLost);
  EXPECT_EQ(flyball_sim_work(0, "forward", 1, nullptr), FLYBALL_SIM_LOST);
  EXPECT_EQ(flyball_sim_clear_faults(0), FLYBALL_SIM_OK);
  EXPECT_EQ(running_works(machine.state(0)), 0);
  EXPECT_TRUE(Machine::remove(machine.name()));
  second.join();
  EXPECT_EQ(gone.result, WorkResult::kNoMachine);
  EXPECT_EQ(flyball_sim_work(0, "forward", 1, nullptr), FLYBALL_SIM_NO_MACHINE);
}

TEST(Workload, SaysWhatIsWrong) {
  EXPECT_EQ(flyball_sim_gpu_count(), 0u);
  double number = 0;
  EXPECT_EQ(flyball_sim_true_energy(0, &number, nullptr), FLYBALL_SIM_NO_MACHINE);
  const SimulatedMachine machine;
  EXPECT_EQ(flyball_sim_gpu_count(), 1u);
  EXPECT_EQ(flyball_sim_work(1, "forward", 1, nullptr), FLYBALL_SIM_INVALID);
  EXPECT_EQ(flyball_sim_work(0, "sideways", 1, nullptr), FLYBALL_SIM_INVALID);
  EXPECT_EQ(flyball_sim_work(0, nullptr, 1, nullptr), FLYBALL_SIM_INVALID);
  for (const double seconds : {0.0, -1.0, std::nan(""), 1e7}) {
    EXPECT_EQ(flyball_sim_work(0, "forward", seconds, nullptr), FLYBALL_SIM_INVALID) << seconds;
  }
  const flyball_sim_activity bad{1.5, 100, 100};
  EXPECT_EQ(flyball_sim_work_like(0, &bad, 1, nullptr), FLYBALL_SIM_INVALID);
  EXPECT_EQ(flyball_sim_unblock(0), FLYBALL_SIM_INVALID);
  EXPECT_EQ(flyball_sim_true_cpu_energy(1, &number, nullptr), FLYBALL_SIM_INVALID);
  for (int result = FLYBALL_SIM_OK; result <= FLYBALL_SIM_SYSTEM; ++result) {
    EXPECT_STRNE(flyball_sim_error_text(result), flyball_sim_error_text(-1));
  }
}

TEST(Workload, TrueEnergyAndTimeAreOfOneMoment) {
  const SimulatedMachine machine;
  double joules = 0;
  double seconds = 0;
  ASSERT_EQ(flyball_sim_true_energy(0, &joules, &seconds), FLYBALL_SIM_OK);
  EXPECT_NEAR(joules, 45 * seconds, 1e-9);
  ASSERT_EQ(flyball_sim_add_time(10), FLYBALL_SIM_OK);
  double later = 0;
  double scale = -1;
  ASSERT_EQ(flyball_sim_time(&later, &scale), FLYBALL_SIM_OK);
  EXPECT_NEAR(later, seconds + 10, 1e-9);
  EXPECT_EQ(scale, 0.0);
}

TEST(Workload, ProcessorsDrawForTheGpusThatAreServed) {
  const SimulatedMachine machine("a100", 8);  // two packages
  machine->add_time(kSecond);
  double package = 0;
  double dram = 0;
  ASSERT_EQ(flyball_sim_true_cpu_energy(1, &package, &dram), FLYBALL_SIM_OK);
  EXPECT_NEAR(package, 45, 1e-9);
  EXPECT_NEAR(dram, 6, 1e-9);
  ASSERT_EQ(flyball_sim_block(3), FLYBALL_SIM_OK);
  machine->add_time(kSecond);
  ASSERT_EQ(flyball_sim_true_cpu_energy(1, &package, &dram), FLYBALL_SIM_OK);
  EXPECT_NEAR(package, 2 * 45 + 12, 1e-9);
  EXPECT_NEAR(dram, 2 * 6 + 4, 1e-9);
  ASSERT_EQ(flyball_sim_true_cpu_energy(0, &package, nullptr), FLYBALL_SIM_OK);
  EXPECT_NEAR(package, 2 * 45, 1e-9);
}

// What `action` answers in a process of another user; -1 where this one cannot become another.
int as_another_user(const std::function<int()>& action) {
  if (::geteuid() != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(99);
    ::_exit(action());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

TEST(Machine, IsTakenDownByItsOwnerOnly) {
  const SimulatedMachine machine;
  EXPECT_EQ(machine->owner(), ::geteuid());
  const int refused = as_another_user([&] {
    try {
      Machine::remove(machine.name());
      return 1;
    } catch (const MachineOfOther& other) {
      return other.owner() == 0 ? 0 : 2;
    }
  });
  if (refused == -1) GTEST_SKIP() << "only root can be another user";
  EXPECT_EQ(refused, 0);
  EXPECT_FALSE(machine->down()) << "it works on as if nothing had been asked";
  EXPECT_NE(Machine::open(machine.name()), nullptr);
}

TEST(Workload, KnowsEveryCallThatAsksForItsFaults) {
  // Every name that stands in the simulated library's sources is one that its faults can name.
  std::set<std::string> names;
  for (const char* file : {"nvml_clocks.cpp", "nvml_identity.cpp", "nvml_library.cpp"}) {
    const std::string text = read_text_file(FLYBALL_SOURCE_DIR "/src/sim/" + std::string(file));
    const std::regex quoted("\"(nvml[A-Za-z0-9_]+)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at) names.insert((*at)[1]);
  }
  EXPECT_EQ(names, std::set<std::string>(fault_calls().begin(), fault_calls().end()));
  EXPECT_TRUE(std::is_sorted(fault_calls().begin(), fault_calls().end()));
  for (const std::string& name : names) EXPECT_LT(name.size(), sizeof SimFault::call) << name;
}

TEST(Workload, ReadsFaultsStrictly) {
  for (const char* good :
       {"lost", "error:nvmlDeviceGetName=999", "error:*=4", "hang:nvmlDeviceGetName=2.5", "counter-frozen",
        "counter-wraps=1000", "counter-missing", "counter-costs=0.0025", "unprivileged", "mig", "hot"}) {
    EXPECT_TRUE(parse_fault(good).has_value()) << good;
  }
  for (const char* bad : {"", "lost=1", "lost:x", "error=4", "error:x", "error:x=", "error:x=four", "error:x=0",
                          "hang:x=-1", "hang:x=nan", "counter-wraps", "counter-wraps=0", "Lost",
                          "error:nvmlDeviceGetName=4 ", "error:x=4", "hang:nvmlDeviceGetTemprature=1"}) {
    EXPECT_FALSE(parse_fault(bad).has_value()) << bad;
  }
  EXPECT_FALSE(parse_fault("error:" + std::string(60, 'n') + "=4").has_value());
  const auto fault = parse_fault("error:nvmlDeviceGetName=999");
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->code, 999u);
  EXPECT_STREQ(fault->call, "nvmlDeviceGetName");
}

}  // namespace
}  // namespace flyball::testing
