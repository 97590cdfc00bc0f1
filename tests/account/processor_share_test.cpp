#include "account/processor_share.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "support/memory_traces.h"

namespace flyball {
namespace {

using testing::MemoryPower;

// Two processors on socket 0, one on socket 1. From 1 s to 2 s: cpu 0 is busy for 60 jiffies and 20 of interrupts, of
// which task 7 ran 50; cpu 1 for 20, all of them the monitor's; cpu 2 for none. From 2 s to 3 s: cpu 2 for 10, of which
// the new task 8 claims 30.
constexpr const char* kTrace = R"(timestamp,kind,id,cpu,busy,system
1,cpu,0,0,100,10
1,cpu,0,1,100,0
1,cpu,1,2,100,0
1,task,7,0,40,0
1,monitor,5,1,3,0
2,cpu,0,0,160,30
2,cpu,0,1,120,0
2,cpu,1,2,100,0
2,task,7,0,90,0
2,monitor,5,1,23,0
3,cpu,0,0,160,30
3,cpu,0,1,120,0
3,cpu,1,2,110,0
3,task,8,2,30,0
)";

TEST(ProcessorShare, DividesByJiffies) {
  const std::vector<ShareInterval> shares = processor_shares(read_jiffies("j.csv", kTrace));
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].begin, kSecond);
  ASSERT_EQ(shares[0].sockets.size(), 2u);
  EXPECT_DOUBLE_EQ(shares[0].sockets[0].program, 0.5);
  EXPECT_DOUBLE_EQ(shares[0].sockets[0].monitor, 0.2);
  EXPECT_DOUBLE_EQ(shares[0].sockets[0].system, 0.2);
  EXPECT_NEAR(shares[0].sockets[0].other, 0.1, 1e-15);
  EXPECT_DOUBLE_EQ(shares[0].sockets[1].system, 1.0);
  EXPECT_DOUBLE_EQ(shares[1].sockets[0].system, 1.0);
  EXPECT_DOUBLE_EQ(shares[1].sockets[1].program, 1.0);
}

// 100 W on CPU:0 from 0 s to 4 s: 100 J before the jiffies and 100 J after them pass whole, 50 J of the second second
// and none of the third. GPU:0 passes.
TEST(ProcessorShare, PowerIsCutDownAndTheRestKept) {
  DeviceTable devices;
  const DeviceId cpu = devices.intern("CPU:0");
  const DeviceId gpu = devices.intern("GPU:0");
  const std::vector<ShareInterval> shares = processor_shares(read_jiffies("j.csv", kTrace));
  MemoryPower source({{0, 4 * kSecond, cpu, Watts(100)},
                      {kSecond / 2, 2 * kSecond, gpu, Watts(10)},
                      {2 * kSecond, 4 * kSecond, gpu, Watts(20)}});
  ProgramPower power(source, shares, devices);
  PowerSegment segment;
  Joules cpu_energy;
  Joules gpu_energy;
  Nanoseconds last = 0;
  while (power.next(segment)) {
    EXPECT_GE(segment.begin, last);
    last = segment.begin;
    (segment.device == cpu ? cpu_energy : gpu_energy) += segment.power * to_seconds(segment.end - segment.begin);
  }
  EXPECT_NEAR(cpu_energy.value(), 250.0, 1e-9);
  EXPECT_NEAR(gpu_energy.value(), 55.0, 1e-9);
  ASSERT_EQ(power.rest().size(), 1u);
  EXPECT_NEAR(power.rest()[cpu].other, 10.0, 1e-9);
  EXPECT_NEAR(power.rest()[cpu].system, 120.0, 1e-9);
  EXPECT_NEAR(power.rest()[cpu].monitor, 20.0, 1e-9);
  EXPECT_NEAR(power.rest()[cpu].uncovered, 200.0, 1e-9);
  EXPECT_EQ(power.rest()[cpu].uncovered_time, 2 * kSecond);
}

TEST(ProcessorShare, RefusesWhatIsNoTrace) {
  const std::string header = "timestamp,kind,id,cpu,busy,system\n";
  for (const char* row : {"2,cpu,0,0,1,1\n1,cpu,0,0,1,1\n", "1,gpu,0,0,1,1\n", "1,cpu,0,-1,1,1\n",
                          "1,cpu,99999999,0,1,1\n", "1,task,1,0,-5,0\n", "1,cpu\n"}) {
    EXPECT_THROW((void)read_jiffies("j.csv", header + row), InputError) << row;
  }
}

}  // namespace
}  // namespace flyball
