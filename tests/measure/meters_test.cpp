// Devices as meters; those of GPUs are tested on simulated boards (tests/measuring).
#include "measure/meters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace flyball::testing {
namespace {

using ::testing::SizeIs;

class FakePackage final : public CpuDevice {
 public:
  [[nodiscard]] std::size_t index() const override { return 3; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Joules package_energy() const override {
    if (!readable) throw DeviceError(DeviceFault::kPermission, "CPU:3", "root only");
    return package;
  }
  [[nodiscard]] std::optional<Joules> dram_energy() const override { return dram; }

  bool readable = true;
  Joules package;
  std::optional<Joules> dram;

 private:
  std::string name_ = "package-3";
};

TEST(Meters, OfAProcessorAreThePackageAndItsMemory) {
  const auto cpu = std::make_shared<FakePackage>();
  cpu->dram = Joules(0);
  const std::vector<Meter> meters = meters_of(cpu);
  ASSERT_THAT(meters, SizeIs(2));
  EXPECT_EQ(meters[0].label, "CPU:3");
  EXPECT_EQ(meters[1].label, "DRAM:3");
  cpu->package = Joules(2);
  cpu->dram = Joules(0.5);
  EXPECT_EQ(meters[0].read().total, Joules(2));
  EXPECT_EQ(meters[0].read().power, std::nullopt);
  EXPECT_EQ(meters[1].read().total, Joules(0.5));
}

TEST(Meters, OfAProcessorWithoutMemoryCounterAreOne) {
  EXPECT_THAT(meters_of(std::make_shared<FakePackage>()), SizeIs(1));
}

TEST(Meters, OfACounterThatMayNotBeReadAreRefusedAtOnce) {
  const auto cpu = std::make_shared<FakePackage>();
  cpu->readable = false;
  EXPECT_THROW(static_cast<void>(meters_of(cpu)), DeviceError);
}

}  // namespace
}  // namespace flyball::testing
