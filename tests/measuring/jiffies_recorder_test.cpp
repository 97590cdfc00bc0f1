// What `flyball record --jiffies` writes, from a tree as the kernel shows it.
#include "measure/jiffies_recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "account/processor_share.h"
#include "cli/program.h"

namespace flyball::testing {
namespace {

constexpr Nanoseconds kNow = 1'795'179'492'322'089'197;

class JiffiesRecorderTest : public ::testing::Test {
 protected:
  JiffiesRecorderTest() {
    file("proc/stat",
         "cpu  30 3 15 300 6 9 12 18 0 0\n"
         "cpu0 10 1 5 100 2 3 4 6 0 0\n"
         "cpu1 20 2 10 200 4 6 8 12 0 0\n"
         "intr 1 2 3\n");
    file("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
    file("sys/devices/system/cpu/cpu1/topology/physical_package_id", "1\n");
  }

  void file(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = folder_ / path;
    std::filesystem::create_directories(whole.parent_path());
    write_file(whole, text);
  }

  // proc(5): fields 3 to 13, user and system time, fields 16 to 38, the processor.
  void task(int process, int id, const std::string& name, int user, int system, int cpu,
            const std::string& children = "") const {
    std::string stat = std::to_string(id) + " (" + name + ") S";
    for (int field = 4; field <= 13; ++field) stat += " 7";
    stat += " " + std::to_string(user) + " " + std::to_string(system);
    for (int field = 16; field <= 38; ++field) stat += " 7";
    stat += " " + std::to_string(cpu) + " 0 0\n";
    const std::string place = "proc/" + std::to_string(process) + "/task/" + std::to_string(id) + "/";
    file(place + "stat", stat);
    file(place + "children", children);
  }

  [[nodiscard]] JiffiesRecorder recorder() const { return {folder_ / "proc", folder_ / "sys", 100}; }

  TempFolder folder_;
};

TEST_F(JiffiesRecorderTest, BooksProcessorsTheMonitorAndThePrograms) {
  task(100, 100, "flyball", 4, 1, 0, "200 ");
  task(200, 200, "sh", 2, 2, 1, "300 ");
  task(300, 300, "python", 50, 5, 1);
  EXPECT_EQ(recorder().sample(kNow),
            "1795179492.322089,cpu,0,0,16,13\n"
            "1795179492.322089,cpu,1,1,32,26\n"
            "1795179492.322089,monitor,100,0,5,0\n"
            "1795179492.322089,task,200,1,4,0\n"
            "1795179492.322089,task,300,1,55,0\n");
}

TEST_F(JiffiesRecorderTest, AProgramCanMeasureItself) {
  task(100, 100, "python", 4, 1, 0, "200 ");
  task(200, 200, "worker", 2, 2, 1);
  JiffiesRecorder own(folder_ / "proc", folder_ / "sys", 100, JiffiesRecorder::Self::kProgram);
  EXPECT_EQ(own.sample(kNow),
            "1795179492.322089,cpu,0,0,16,13\n"
            "1795179492.322089,cpu,1,1,32,26\n"
            "1795179492.322089,task,100,0,5,0\n"
            "1795179492.322089,task,200,1,4,0\n");
}

TEST_F(JiffiesRecorderTest, ANameMayHoldAnything) {
  task(100, 100, "a) R 9 (b", 4, 1, 1);
  EXPECT_NE(recorder().sample(kNow).find(",monitor,100,1,5,0\n"), std::string::npos);
}

TEST_F(JiffiesRecorderTest, WhatHasEndedMeanwhileIsLeftOut) {
  task(100, 100, "flyball", 4, 1, 0, "200 300 ");  // 200 has gone
  file("proc/300/task/300/stat", "");              // and 300 as it was read
  file("proc/300/task/301/stat", "301 (x) S 1 2 3\n");
  const std::string rows = recorder().sample(kNow);
  EXPECT_NE(rows.find(",monitor,100,0,5,0\n"), std::string::npos);
  EXPECT_EQ(rows.find(",task,"), std::string::npos) << rows;
}

TEST_F(JiffiesRecorderTest, WithoutTopologyEveryProcessorIsOfTheFirstSocket) {
  std::filesystem::remove_all(folder_ / "sys");
  EXPECT_NE(recorder().sample(kNow).find(",cpu,0,1,32,26\n"), std::string::npos);
}

// Between the samples cpu1 worked 40 jiffies, 30 of them for the program: cpu0 did nothing.
TEST_F(JiffiesRecorderTest, AccountReadsItsRows) {
  task(100, 100, "flyball", 0, 0, 0, "300 ");
  task(300, 300, "python", 50, 5, 1);
  JiffiesRecorder jiffies = recorder();
  std::string text = JiffiesRecorder::header() + jiffies.sample(kNow);
  file("proc/stat", "cpu0 10 1 5 200 2 3 4 6 0 0\ncpu1 60 2 10 260 4 6 8 12 0 0\n");
  task(300, 300, "python", 80, 5, 1);
  text += jiffies.sample(kNow + 1'000'000'000);
  const std::vector<ShareInterval> shares = processor_shares(read_jiffies("jiffies.csv", text));
  ASSERT_EQ(shares.size(), 1u);
  ASSERT_EQ(shares[0].sockets.size(), 2u);
  EXPECT_EQ(shares[0].sockets[0].program, 0.0);
  EXPECT_NEAR(shares[0].sockets[1].program, 0.75, 1e-9);
  EXPECT_NEAR(shares[0].sockets[1].other, 0.25, 1e-9);
}

// --- The kernel's own ----------------------------------------------------------------------------------------------

TEST(JiffiesRecorderOfThisMachine, IsAJiffiesTrace) {
  JiffiesRecorder jiffies("/proc", "/sys", ::getpid());
  const std::string text = JiffiesRecorder::header() + jiffies.sample(kNow) + jiffies.sample(kNow + 1'000'000'000);
  EXPECT_EQ(read_jiffies("jiffies.csv", text).samples.size(), 2u);
  EXPECT_NE(text.find(",monitor," + std::to_string(::getpid()) + ","), std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
