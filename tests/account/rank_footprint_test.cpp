// Several ranks of one job: made-up traces that a hand can add up, real ones for what is conserved.
#include "account/rank_footprint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "account/account_options.h"
#include "account/account_run.h"
#include "account/communication.h"
#include "account/work_class.h"
#include "base/error.h"
#include "support/memory_traces.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RankFootprint : public ::testing::Test {
 protected:
  // Rank r computes "m/a" on GPU r, for 1 s and 1.5 s, and communicates until 2 s. Both load on CPU:0, rank 0 from 0 to
  // 1 s, rank 1 from 0.5 to 1 s.
  std::vector<std::string> events(const std::string& device_of_rank_1 = "GPU 1") {
    return {folder_.file("r0.json", R"([
      {"ph":"X","name":"m/a","pid":"GPU 0","tid":1,"ts":0,"dur":1000000},
      {"ph":"X","name":"nccl:all_reduce","pid":"GPU 0","tid":1,"ts":1000000,"dur":1000000},
      {"ph":"X","name":"load","pid":"python","tid":1,"ts":0,"dur":1000000}])"),
            folder_.file("r1.json", fmt::format(R"([
      {{"ph":"X","name":"m/a","pid":"{0}","tid":1,"ts":0,"dur":1500000}},
      {{"ph":"X","name":"nccl:all_reduce","pid":"{0}","tid":1,"ts":1500000,"dur":500000}},
      {{"ph":"X","name":"load","pid":"python","tid":1,"ts":500000,"dur":500000}}])",
                                                device_of_rank_1))};
  }
  std::string power(const std::string& name, const std::vector<std::pair<std::string, double>>& watts) {
    std::string text = "timestamp,device,power_w\n";
    for (const char* time : {"0", "1", "2"}) {
      for (const auto& [device, draw] : watts) text += fmt::format("{},{},{}\n", time, device, draw);
    }
    return folder_.file(name, text);
  }
  AccountOptions job() {
    AccountOptions options;
    options.ranks = true;
    options.clock_offset = Seconds(0);
    options.method = AccountMethod::kSweep;
    options.events = events();
    options.power = {power("node.csv", {{"GPU:0", 100}, {"GPU:1", 200}, {"CPU:0", 50}})};
    return options;
  }
  static const FootprintRow& row(const Footprint& footprint, const std::string& name) {
    const auto found = std::find_if(footprint.rows.begin(), footprint.rows.end(),
                                    [&name](const FootprintRow& one) { return one.name == name; });
    if (found == footprint.rows.end()) throw std::out_of_range(name);
    return *found;
  }

  testing::TempFolder folder_;
};

// m/a: 100 W for 1 s and 200 W for 1.5 s, 400 J; the ranks' 100 and 300 J deviate by sqrt(100^2 + 100^2) = 141.4 J.
// all_reduce: 100 W for 1 s and 200 W for 0.5 s. load: 50 W for 1 s, of which rank 0 has 0.5 s alone and half of 0.5 s:
// 37.5 and 12.5 J. CPU:0 is idle for the other second, which is neither rank's. The last readings hold for another
// second, after the profile.
TEST_F(RankFootprint, AddsUpRanksOfOneNode) {
  const AccountResult result = account_runs(account_request(job()));
  const Footprint& footprint = result.footprint;
  ASSERT_EQ(footprint.rows.size(), 3u);
  EXPECT_EQ(row(footprint, "m/a").device, "GPU");
  EXPECT_NEAR(row(footprint, "m/a").energy.value(), 400.0, 1e-9);
  EXPECT_NEAR(row(footprint, "m/a").energy_deviation.value(), 141.4213562, 1e-6);
  EXPECT_NEAR(row(footprint, "m/a").busy.value(), 2.5, 1e-9);
  EXPECT_NEAR(row(footprint, "nccl:all_reduce").energy.value(), 200.0, 1e-9);
  EXPECT_NEAR(row(footprint, "nccl:all_reduce").energy_deviation.value(), 0.0, 1e-9);
  EXPECT_NEAR(row(footprint, "load").energy.value(), 50.0, 1e-9);
  ASSERT_EQ(footprint.ranks.size(), 2u);
  const RankShare& fast = footprint.ranks[0];
  const RankShare& slow = footprint.ranks[1];
  EXPECT_NEAR(fast.energy.value(), 100 + 100 + 37.5, 1e-9);
  EXPECT_NEAR(slow.energy.value(), 300 + 100 + 12.5, 1e-9);
  EXPECT_THAT(slow.devices, ElementsAre("GPU:1"));
  EXPECT_NEAR(fast.computing.value(), 1.0, 1e-9);
  EXPECT_NEAR(slow.computing.value(), 1.5, 1e-9);
  EXPECT_NEAR(fast.communicating.value(), 1.0, 1e-9);
  EXPECT_NEAR(slow.processor.value(), 0.5, 1e-9);
  EXPECT_NEAR(fast.idle.value(), 0.0, 1e-9);
  EXPECT_NEAR(fast.exposed.value(), 1.0, 1e-9);
  EXPECT_NEAR(footprint.communication().alone.value(), 1.5, 1e-9);
  EXPECT_NEAR(footprint.communication().energy.value(), 200.0, 1e-9);
  EXPECT_EQ(slowest_rank(footprint.ranks), 1u);
  EXPECT_NEAR(footprint.measured().value(), 1050.0, 1e-9);
  EXPECT_NEAR(footprint.outside().value(), 350.0, 1e-9);
  EXPECT_NEAR(footprint.idle().value(), 50.0, 1e-9);
  EXPECT_EQ(footprint.runs, 1);
}

// Under CUDA_VISIBLE_DEVICES both ranks call their GPU 0; on a node each, they are two GPUs.
TEST_F(RankFootprint, DevicesOfSingleRanksAndNodes) {
  AccountOptions options = job();
  options.events = events("GPU 0");
  options.event_devices = {{"1/GPU:0", "GPU:1"}};
  AccountResult result = account_runs(account_request(options));
  EXPECT_NEAR(row(result.footprint, "m/a").energy.value(), 400.0, 1e-9);
  EXPECT_THAT(result.notes, Not(Contains(HasSubstr("changes nothing"))));

  options.event_devices = {{"1/GPU:7", "GPU:1"}};
  EXPECT_THAT(account_runs(account_request(options)).notes, Contains(HasSubstr("1/GPU:7=... changes nothing")));
  // One power trace, however it is spelt.
  options.event_devices = {{"1/GPU:0", "GPU:1"}};
  options.power.push_back((folder_.path() / "." / "node.csv").string());
  EXPECT_NEAR(account_runs(account_request(options)).footprint.measured().value(), 1050.0, 1e-9);

  options.event_devices.clear();
  options.power = {power("a.csv", {{"GPU:0", 100}, {"CPU:0", 50}}), power("b.csv", {{"GPU:0", 200}, {"CPU:0", 60}})};
  result = account_runs(account_request(options));
  EXPECT_NEAR(row(result.footprint, "m/a").energy.value(), 400.0, 1e-9);
  EXPECT_NEAR(row(result.footprint, "load").energy.value(), 50.0 + 30.0, 1e-9);
  std::vector<std::string> devices;
  for (const FootprintDevice& device : result.footprint.devices) devices.push_back(device.device);
  EXPECT_THAT(devices, ElementsAre("n0/CPU:0", "n0/GPU:0", "n1/CPU:0", "n1/GPU:0"));
  EXPECT_THAT(result.footprint.ranks[1].devices, ElementsAre("n1/CPU:0", "n1/GPU:0"));
  // Of n1's second and a half without load, 1.5 s at 60 W, all is rank 1's; its GPU is never idle.
  EXPECT_NEAR(result.footprint.ranks[1].idle.value(), 90.0, 1e-9);
}

// PyTorch says which rank a trace is of, whatever their order.
TEST_F(RankFootprint, NumbersAreThoseOfTheTraces) {
  AccountOptions options = job();
  const auto trace = [this](const char* name, int rank, int us) {
    return folder_.file(name, fmt::format(R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{0},
"world_size":8}},"traceEvents":[{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":{1}}}]}})",
                                          rank, us));
  };
  options.events = {trace("a.json", 5, 2'000'000), trace("b.json", 3, 1'000'000)};
  const Footprint footprint = account_runs(account_request(options)).footprint;
  ASSERT_EQ(footprint.ranks.size(), 2u);
  EXPECT_EQ(footprint.ranks[0].rank, 3);
  EXPECT_EQ(footprint.ranks[1].rank, 5);
  // 50 W, shared for the first of the two seconds.
  EXPECT_NEAR(footprint.ranks[0].energy.value(), 25.0, 1e-9);
  EXPECT_NEAR(footprint.ranks[1].energy.value(), 75.0, 1e-9);
  // Without accelerators it is processors on which ranks compute.
  EXPECT_NEAR(footprint.ranks[1].computing.value(), 2.0, 1e-9);
  EXPECT_EQ(slowest_rank(footprint.ranks), 1u);
}

// All formats that ship, as ranks of one job and as many ranks of one file.
TEST_F(RankFootprint, ConservesJoules) {
  const std::string files = std::string(FLYBALL_SOURCE_DIR) + "/tests/trace/files/";
  const std::vector<std::string> names = {
      "pytorch-legacy.json.gz",  "pytorch-modules.json.gz",       "pytorch-plain.json.gz",
      "pytorch-stack.json.gz",   "tensorflow-timeline.json.gz",   "synthetic-kineto-gpu.json",
      "xprof-jax.trace.json.gz", "xprof-tensorflow.xplane.pb.gz", "xprof-jax.xplane.pb.gz"};
  for (const std::string& name : names) {
    OperationTable operations;
    DeviceTable devices;
    const auto trace = open_event_trace(files + name, {}, operations, devices);
    const double first = to_seconds(trace->stats().first).value();
    const double length = to_seconds(trace->stats().last).value() - first;
    std::string text = "timestamp,device,power_w\n";
    for (int i = -1; i <= 40; ++i) {
      for (const char* device : {"CPU:0", "GPU:0", "GPU:1"}) {
        text += fmt::format("{:.9f},{},{}\n", first + length * i / 38.0, device, 50 + 7 * ((i + 3) % 5));
      }
    }
    AccountOptions options;
    options.ranks = true;
    options.method = AccountMethod::kSweep;
    options.clock_offset = Seconds(0);
    options.power = {folder_.file("p.csv", text)};
    options.events.assign(16, files + name);
    const Footprint footprint = account_runs(account_request(options)).footprint;
    const double measured = footprint.measured().value();
    double parts = footprint.idle().value() + footprint.outside().value();
    for (const FootprintRow& one : footprint.rows) parts += one.energy.value();
    EXPECT_GT(footprint.attributed().value(), 0.0) << name;
    EXPECT_NEAR(parts, measured, 1e-9 * measured) << name;
    EXPECT_EQ(footprint.ranks.size(), 16u) << name;
    double shares = 0.0;
    for (const RankShare& share : footprint.ranks) shares += share.energy.value();
    EXPECT_NEAR(shares, footprint.attributed().value(), 1e-9 * measured) << name;
  }
}

TEST_F(RankFootprint, RefusesWhatDoesNotGoTogether) {
  AccountOptions options = job();
  options.events.push_back(options.events[0]);
  options.power.push_back(options.power[0]);
  try {
    (void)account_request(options);
    FAIL() << "3 events, 2 powers";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("or one for all ranks"));
  }
  const auto refused = [](const AccountOptions& given, const char* words) {
    try {
      (void)account_runs(account_request(given));
      ADD_FAILURE() << words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  options = job();
  options.events[1] = folder_.file("later.json", R"([
    {"ph":"X","name":"m/a","pid":"GPU 1","tid":1,"ts":5000000,"dur":1000000}])");
  refused(options, "rank 1 begin 3.000 s after");
  options.events[1] = folder_.file("nothing.json", "[]");
  refused(options, "nothing ran in this trace, which is of rank 1");
  options = job();
  options.events = {options.events[0], (folder_.path() / "missing.json").string()};
  EXPECT_THROW((void)account_request(options), SystemError);
}

// On GPU:0, 100 W until 2 s and 300 W then: communication from 0 to 3 s, beside it work from 1 to 2.5 s. Alone are the
// first second and the last half of one: 100 J and 150 J. The power ends at 2.75 s, so that 75 J of these are unknown.
TEST(CommunicationTimes, AloneAndBesideOtherWork) {
  const Nanoseconds half = kSecond / 2;
  testing::MemoryEvents events({{0, 3 * kSecond, 0, 7}, {kSecond, 2 * kSecond + half, 0, 8}});
  testing::MemoryPower power(
      {{0, 2 * kSecond, 0, Watts(100)}, {2 * kSecond, 2 * kSecond + 3 * half / 2, 0, Watts(300)}});
  const auto times = communication_time(events, power, [](OperationId id) { return id == 7; });
  ASSERT_EQ(times.size(), 1u);
  EXPECT_NEAR(times[0].beside.value(), 1.5, 1e-12);
  EXPECT_NEAR(times[0].alone.value(), 1.5, 1e-12);
  EXPECT_NEAR(times[0].energy.value(), 175.0, 1e-9);
}

TEST(WorkClasses, ByName) {
  EXPECT_EQ(work_class("ddp/c10d::allreduce_/nccl:all_reduce", Phase::kBackward), WorkClass::kCommunicate);
  EXPECT_EQ(work_class("jit_step/all-reduce.3", Phase::kUnknown), WorkClass::kCommunicate);
  EXPECT_EQ(work_class("ncclDevKernel_AllReduce_Sum_f32_RING_LL", Phase::kUnknown), WorkClass::kCommunicate);
  EXPECT_EQ(work_class("head/psum", Phase::kBackward), WorkClass::kCommunicate);
  EXPECT_EQ(work_class("train/CollectiveReduceV2", Phase::kForward), WorkClass::kCommunicate);
  EXPECT_EQ(work_class("alltoall_dispatch/mlp/dot_general", Phase::kForward), WorkClass::kCompute);
  EXPECT_EQ(work_class("encoder/aten::to/aten::copy_", Phase::kForward), WorkClass::kCopy);
  EXPECT_EQ(work_class("Memcpy HtoD (Pinned -> Device)", Phase::kUnknown), WorkClass::kCopy);
  EXPECT_EQ(work_class("Optimizer.step#Adam.step/aten::add_", Phase::kOptimizer), WorkClass::kOptimize);
  EXPECT_EQ(work_class("encoder/aten::copy_/aten::mm", Phase::kForward), WorkClass::kCompute);
}

}  // namespace
}  // namespace flyball
