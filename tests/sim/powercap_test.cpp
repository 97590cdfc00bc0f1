// The simulated powercap tree, read as programs read the real one.
#include "sim/powercap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "cli/program.h"
#include "flyball/sim.h"
#include "sim/simulated.h"

namespace flyball::testing {
namespace {

std::uint64_t number_in(const std::filesystem::path& file) { return std::stoull(read_text_file(file)); }

// A machine with a tree, and the process that writes it as a thread.
class Powercap : public ::testing::Test {
 protected:
  void up(std::size_t gpus, std::uint64_t range) {
    MachineRequest request;
    request.gpus = gpus;
    request.time_scale = 1.0;
    request.powercap = folder_ / "powercap";
    request.powercap_range = range;
    machine_ = std::make_unique<SimulatedMachine>(request);
    make_powercap_tree(**machine_);
    writer_ = std::thread([this] { run_powercap_writer(**machine_); });
    ASSERT_TRUE(wait_until([this] { return (*machine_)->shared().powercap_pid.load() != 0; }));
  }
  ~Powercap() override {
    if (machine_) Machine::remove(machine_->name());
    if (writer_.joinable()) writer_.join();
  }
  [[nodiscard]] std::filesystem::path root() const { return folder_ / "powercap"; }

  TempFolder folder_;
  std::unique_ptr<SimulatedMachine> machine_;
  std::thread writer_;
};

TEST_F(Powercap, HasThePackagesAndTheirMemoryAsSysfsHasThem) {
  up(8, 0);
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1", "intel-rapl/intel-rapl:1"}) {
    EXPECT_EQ(read_text_file(root() / zone / "name"), std::string("package-") + std::string(zone).back() + "\n");
  }
  for (const char* zone : {"intel-rapl:0:0", "intel-rapl:0/intel-rapl:0:0"}) {
    EXPECT_EQ(read_text_file(root() / zone / "name"), "dram\n");
    EXPECT_GT(number_in(root() / zone / "max_energy_range_uj"), 1'000'000'000u);
  }
}

TEST_F(Powercap, CountersMoveWithTheTrueEnergyInAFileThatStaysOpen) {
  up(1, 0);
  const int file = ::open((root() / "intel-rapl:0" / "energy_uj").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  const auto read_open = [&] {
    std::array<char, 64> text{};
    EXPECT_GT(::pread(file, text.data(), text.size() - 1, 0), 0);
    return std::strtoull(text.data(), nullptr, 10);
  };
  double before = 0;
  double after = 0;
  ASSERT_EQ(flyball_sim_true_cpu_energy(0, &before, nullptr), FLYBALL_SIM_OK);
  const auto passed = [&] { return static_cast<double>(read_open()) * 1e-6 > before + 1.0; };
  EXPECT_TRUE(wait_until(passed));  // a joule takes 45 W some 22 ms
  ASSERT_EQ(flyball_sim_true_cpu_energy(0, &after, nullptr), FLYBALL_SIM_OK);
  EXPECT_LE(static_cast<double>(read_open()) * 1e-6, after + 45.0);  // never far ahead of the truth
  EXPECT_LE(static_cast<double>(number_in(root() / "intel-rapl:0:0" / "energy_uj")) * 1e-6, after);
  ::close(file);
}

TEST_F(Powercap, CountersWrapWhereTheySay) {
  up(1, 100'000);  // a tenth of a joule, a few milliseconds
  ASSERT_EQ(number_in(root() / "intel-rapl:0" / "max_energy_range_uj"), 100'000u);
  std::uint64_t last = 0;
  int wraps = 0;
  EXPECT_TRUE(wait_until([&] {
    // Between the shorter number and the cut, a reader may see both.
    const std::uint64_t now = std::strtoull(read_text_file(root() / "intel-rapl:0" / "energy_uj").c_str(), nullptr, 10);
    EXPECT_LT(now, 100'000u);
    wraps += now < last ? 1 : 0;
    last = now;
    return wraps >= 5;
  }));
}

TEST_F(Powercap, GoesAwayWithoutTouchingWhatIsNotItsOwn) {
  up(1, 0);
  write_file(root() / "notes", "mine");
  Machine::remove(machine_->name());
  writer_.join();
  remove_powercap_tree(root());
  EXPECT_FALSE(std::filesystem::exists(root() / "intel-rapl"));
  EXPECT_FALSE(std::filesystem::exists(root() / "intel-rapl:0"));
  EXPECT_TRUE(std::filesystem::exists(root() / "notes"));
}

TEST_F(Powercap, LeavesARealTreeAlone) {
  std::filesystem::create_directories(root() / "intel-rapl");
  MachineRequest request;
  request.powercap = root().string();
  const SimulatedMachine machine(request);
  EXPECT_THROW(make_powercap_tree(*machine), SystemError);
  remove_powercap_tree(root());
  EXPECT_TRUE(std::filesystem::exists(root() / "intel-rapl"));
}

}  // namespace
}  // namespace flyball::testing
