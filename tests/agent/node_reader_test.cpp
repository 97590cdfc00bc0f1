#include "agent/node_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/memory_gpu.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::MemoryGpu;

class FixedCpu : public CpuDevice {
 public:
  explicit FixedCpu(bool readable) : readable_(readable) {}
  [[nodiscard]] std::size_t index() const override { return 0; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Joules package_energy() const override {
    if (!readable_) throw DeviceError(DeviceFault::kPermission, "CPU:0", "only root may read it");
    return Joules(12.5);
  }
  [[nodiscard]] std::optional<Joules> dram_energy() const override { return std::nullopt; }

 private:
  bool readable_;
  std::string name_ = "package-0";
};

// GPU 0 was counted and not opened, GPU 2 is lost: they are there, by their numbers, with what is wrong.
TEST(NodeReader, TellsOfEveryDevice) {
  const auto well = std::make_shared<MemoryGpu>(1);
  const auto lost = std::make_shared<MemoryGpu>(2);
  lost->lose();
  OpenedGpus opened;
  opened.gpus = {well, lost};
  opened.refused.push_back({0, DeviceError(DeviceFault::kTimeout, "GPU:0", "no answer"), {}});
  NodeReader reader(opened, {std::make_shared<FixedCpu>(true), std::make_shared<FixedCpu>(false)});
  const NodeStatus status = reader.read();
  ASSERT_EQ(status.gpus.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(status.gpus[i].index, i);
  EXPECT_EQ(status.gpus[0].health, GpuHealth::kUnwell);
  EXPECT_THAT(status.gpus[0].trouble, HasSubstr("no answer"));
  EXPECT_EQ(status.gpus[1].health, GpuHealth::kWell);
  EXPECT_EQ(status.gpus[1].power, Watts(101.0));
  EXPECT_EQ(status.gpus[1].energy, Joules(1234.5));
  EXPECT_EQ(status.gpus[2].health, GpuHealth::kLost);
  EXPECT_EQ(status.gpus[2].uuid, "GPU-memory-2");
  EXPECT_FALSE(status.gpus[2].power);
  ASSERT_EQ(status.cpus.size(), 2u);
  EXPECT_EQ(status.cpus[0].package_energy, Joules(12.5));
  EXPECT_FALSE(status.cpus[1].package_energy);
  EXPECT_THAT(status.cpus[1].trouble, HasSubstr("only root may read it"));
  EXPECT_FALSE(status.node.empty());
}

TEST(NodeReader, AGpuThatComesBackIsRead) {
  const auto gpu = std::make_shared<MemoryGpu>(0);
  gpu->lose();
  OpenedGpus opened;
  opened.gpus = {gpu};
  NodeReader reader(opened, {});
  EXPECT_EQ(reader.read().gpus[0].health, GpuHealth::kLost);
  gpu->lose(false);
  EXPECT_EQ(reader.read().gpus[0].health, GpuHealth::kWell);
}

}  // namespace
}  // namespace flyball
