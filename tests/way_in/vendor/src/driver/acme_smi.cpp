// Acme's GPUs through libacme_smi, loaded at run time. Acme's codes and units end in this file.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/acme_smi_abi.h"
#include "driver/gpu_vendors.h"
#include "driver/shared_library.h"

namespace flyball {
namespace {

constexpr const char* kVendor = "acme-smi";
constexpr const char* kNoDriverMend = "install Acme's driver";

template <class Function>
using Call = LibraryCall<Function, kAcmeUnsupported>;

struct AcmeSmi {
  explicit AcmeSmi(const std::vector<std::string>& names) : library(names, kVendor, kNoDriverMend) {}

  SharedLibrary library;
  Call<decltype(acme_count_boards)> count_boards{library, "acme_count_boards"};
  Call<decltype(acme_power)> power{library, "acme_power"};
  Call<decltype(acme_energy)> energy{library, "acme_energy"};
  Call<decltype(acme_clock)> clock{library, "acme_clock"};
  Call<decltype(acme_clock_range)> clock_range{library, "acme_clock_range"};
  Call<decltype(acme_lock_clock)> lock_clock{library, "acme_lock_clock"};
  Call<decltype(acme_reset_clock)> reset_clock{library, "acme_reset_clock"};
};

void check(AcmeStatus status, const std::string& device, const char* what) {
  if (status == kAcmeSuccess) return;
  const DeviceFault fault = status == kAcmeUnsupported    ? DeviceFault::kUnsupported
                            : status == kAcmeNoPermission ? DeviceFault::kPermission
                                                          : DeviceFault::kDriver;
  throw DeviceError(fault, device, fmt::format("{}: Acme's status {}", what, status),
                    mend_of(fault, kNoDriverMend, "acme-smi reset"));
}

class AcmeGpu final : public GpuDevice {
 public:
  AcmeGpu(std::shared_ptr<const AcmeSmi> library, std::uint32_t board, std::size_t index)
      : library_(std::move(library)), board_(board), identity_{index, fmt::format("ACME-{}", board), "Acme X1", {}} {}

  const GpuIdentity& identity() const override { return identity_; }

  Watts power() const override {
    return Watts(static_cast<double>(read<std::uint64_t>(library_->power, "reading power")) / 1e3);
  }
  std::optional<Joules> total_energy() const override {
    return Joules(static_cast<double>(read<std::uint64_t>(library_->energy, "reading the energy counter")) / 1e3);
  }
  Megahertz sm_clock() const override {
    return Megahertz(read<std::uint32_t>(library_->clock, "reading the system clock"));
  }
  std::vector<Megahertz> sm_clocks() const override {
    std::uint32_t lowest = 0;
    std::uint32_t highest = 0;
    check(library_->clock_range(board_, &lowest, &highest), label(), "listing the system clocks");
    std::vector<Megahertz> clocks;
    for (std::uint32_t clock = highest; clock >= lowest; --clock) clocks.emplace_back(clock);
    return clocks;
  }

  void lock_sm_clocks(ClockRange range) override {
    constexpr const char* kWhat = "locking the system clock";
    const double high = whole(range.maximum.value(), 1e6, kWhat);
    const double low = whole(range.minimum.value(), high + 1.0, kWhat);
    check(library_->lock_clock(board_, static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high)), label(),
          kWhat);
  }
  void reset_sm_clocks() override { check(library_->reset_clock(board_), label(), "resetting the system clock"); }

  Megahertz memory_clock() const override { refuse(); }
  double temperature_celsius() const override { refuse(); }
  ThrottleReason throttle_reasons() const override { refuse(); }
  double utilisation() const override { refuse(); }
  std::vector<Megahertz> memory_clocks() const override { return {}; }
  Watts power_limit() const override { refuse(); }
  PowerLimitRange power_limits() const override { refuse(); }
  bool persistence() const override { return true; }
  void lock_memory_clocks(ClockRange /*range*/) override { refuse(); }
  void reset_memory_clocks() override { refuse(); }
  void set_power_limit(Watts /*limit*/) override { refuse(); }
  void set_persistence(bool enabled) override {
    if (!enabled) refuse();
  }

 private:
  template <class Value, class Function>
  [[nodiscard]] Value read(const Function& call, const char* what) const {
    Value value = 0;
    check(call(board_, &value), label(), what);
    return value;
  }
  [[noreturn]] void refuse() const {
    throw DeviceError(DeviceFault::kUnsupported, label(), "Acme's library has no call for it");
  }

  std::shared_ptr<const AcmeSmi> library_;
  std::uint32_t board_;
  GpuIdentity identity_;
};

}  // namespace

CountedBoards load_acme_smi(const std::vector<std::string>& libraries) {
  const auto acme = std::make_shared<const AcmeSmi>(libraries);
  std::uint32_t count = 0;
  check(acme->count_boards(&count), kVendor, "counting the boards");
  CountedBoards boards;
  boards.count = count;
  boards.open = [acme](std::size_t board, std::size_t index) {
    return std::make_shared<AcmeGpu>(acme, static_cast<std::uint32_t>(board), index);
  };
  return boards;
}

}  // namespace flyball
