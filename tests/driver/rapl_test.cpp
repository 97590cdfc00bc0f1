// Powercap trees as kernels lay them out, in a folder of our own.
#include "driver/rapl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/expect_fault.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class Powercap : public ::testing::Test {
 protected:
  Powercap() {
    std::string name = (std::filesystem::temp_directory_path() / "flyball_rapl_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~Powercap() override { std::filesystem::remove_all(root_); }

  void write(const std::string& domain, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(root_ / domain);
    std::ofstream(root_ / domain / file) << text << "\n";
  }
  void add(const std::string& domain, const std::string& name, std::uint64_t energy_uj = 0) const {
    write(domain, "name", name);
    write(domain, "max_energy_range_uj", "262143328850");
    set(domain, energy_uj);
  }
  void set(const std::string& domain, std::uint64_t energy_uj) const {
    write(domain, "energy_uj", std::to_string(energy_uj));
  }

  std::filesystem::path root_;
};

TEST_F(Powercap, ListsPackagesWithTheirMemoryAndNothingTwice) {
  add("intel-rapl:0", "package-0");
  add("intel-rapl:0:0", "core");
  add("intel-rapl:0:1", "dram");
  add("intel-rapl:1", "psys");
  add("intel-rapl:2", "package-1");
  add("intel-rapl-mmio:0", "package-0");  // the same counter once more
  std::filesystem::create_directories(root_ / "intel-rapl");
  std::filesystem::create_directories(root_ / "dtpm");
  const auto cpus = open_rapl(root_.string());
  ASSERT_THAT(cpus, SizeIs(2));
  EXPECT_EQ(cpus[0]->name(), "package-0");
  EXPECT_EQ(cpus[0]->label(), "CPU:0");
  EXPECT_TRUE(cpus[0]->dram_energy().has_value());
  EXPECT_EQ(cpus[1]->name(), "package-1");
  EXPECT_EQ(cpus[1]->label(), "CPU:1");
  EXPECT_FALSE(cpus[1]->dram_energy().has_value());
}

TEST_F(Powercap, FindsMemoryInsideItsPackageToo) {
  add("intel-rapl:0", "package-0");
  add("intel-rapl:0/intel-rapl:0:0", "dram", 5);
  ASSERT_THAT(open_rapl(root_.string()), SizeIs(1));
  EXPECT_TRUE(open_rapl(root_.string())[0]->dram_energy().has_value());
}

TEST_F(Powercap, CountsEnergySinceItWasOpenedAcrossAWrap) {
  add("intel-rapl:0", "package-0", 262'143'000'000);
  const auto cpu = open_rapl(root_.string()).at(0);
  EXPECT_EQ(cpu->package_energy(), Joules(0));
  set("intel-rapl:0", 262'143'250'000);
  EXPECT_DOUBLE_EQ(cpu->package_energy().value(), 0.25);
  set("intel-rapl:0", 1'000'000);  // 328,850 - 250,000 uJ to the top, and 1 J more
  EXPECT_DOUBLE_EQ(cpu->package_energy().value(), 1.32885);
  set("intel-rapl:0", 3'000'000);
  EXPECT_DOUBLE_EQ(cpu->package_energy().value(), 3.32885);
}

TEST_F(Powercap, TakesACounterThatBeganAnewForNoWrap) {
  add("intel-rapl:0", "package-0", 90'000'000'000);
  const auto cpu = open_rapl(root_.string()).at(0);
  set("intel-rapl:0", 5'000'000);  // as a wrap, 172 kJ at once
  EXPECT_EQ(cpu->package_energy(), Joules(0));
  set("intel-rapl:0", 7'000'000);
  EXPECT_EQ(cpu->package_energy(), Joules(2));
}

TEST_F(Powercap, SeesAFileThatWasReplaced) {
  add("intel-rapl:0", "package-0", 1'000'000);
  const auto cpu = open_rapl(root_.string()).at(0);
  write("intel-rapl:0", "energy_uj.new", "4000000");
  std::filesystem::rename(root_ / "intel-rapl:0/energy_uj.new", root_ / "intel-rapl:0/energy_uj");
  EXPECT_EQ(cpu->package_energy(), Joules(3));
}

TEST_F(Powercap, SaysThatThereIsNone) {
  for (const std::string& root : {root_.string(), std::string("/nonexistent/powercap")}) {
    expect_fault([&] { return open_rapl(root); }, DeviceFault::kNoDriver, "rapl", "modprobe intel_rapl_msr");
  }
}

struct Broken {
  const char* name;
  void (*breaking)(const std::filesystem::path& file);
  DeviceFault fault;
};

class BrokenCounter : public Powercap, public ::testing::WithParamInterface<Broken> {};

TEST_P(BrokenCounter, IsListedAndTellsWhenAsked) {
  add("intel-rapl:0", "package-0", 1);
  const auto before = open_rapl(root_.string()).at(0);
  GetParam().breaking(root_ / "intel-rapl:0/energy_uj");
  const auto after = open_rapl(root_.string()).at(0);
  for (const auto& cpu : {before, after}) {
    expect_fault([&] { return cpu->package_energy(); }, GetParam().fault, "CPU:0", "energy_uj");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, BrokenCounter,
    ::testing::Values(Broken{"gone", [](const auto& file) { std::filesystem::remove(file); }, DeviceFault::kLost},
                      Broken{"empty", [](const auto& file) { std::ofstream(file, std::ios::trunc); },
                             DeviceFault::kDriver},
                      Broken{"words", [](const auto& file) { std::ofstream(file) << "many\n"; }, DeviceFault::kDriver}),
    [](const auto& broken) { return std::string(broken.param.name); });

TEST_F(Powercap, TellsAnUnreadableCounterFromAMissingOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  add("intel-rapl:0", "package-0", 1);
  std::filesystem::permissions(root_, std::filesystem::perms::all);
  std::filesystem::permissions(root_ / "intel-rapl:0/energy_uj", std::filesystem::perms::owner_read);
  ASSERT_EQ(::seteuid(65534), 0);
  std::string words;
  DeviceFault fault = DeviceFault::kDriver;
  std::size_t listed = 0;
  try {
    const auto cpus = open_rapl(root_.string());
    listed = cpus.size();
    static_cast<void>(cpus.at(0)->package_energy());
  } catch (const DeviceError& error) {
    fault = error.fault();
    words = error.what();
  }
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(listed, 1u);
  EXPECT_EQ(fault, DeviceFault::kPermission);
  EXPECT_THAT(words, HasSubstr("measure through the agent"));
}

}  // namespace
}  // namespace flyball::testing
