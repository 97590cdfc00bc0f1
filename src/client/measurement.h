// Measures within this process, without an agent: all devices of the machine as meters, and windows of time over them.
//
//   Measurement measurement(open_machine());
//   const auto window = measurement.begin();
//   ... work ...
//   const WindowEnergy energy = measurement.end(window);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "driver/cpu.h"
#include "driver/gpu_vendors.h"
#include "driver/rapl.h"
#include "measure/sampler.h"

namespace flyball {

struct MachineOptions {
  // The GPUs to measure, as `flyball devices` counts; all where not set. CUDA_VISIBLE_DEVICES is ignored: it renumbers
  // what one program sees, while energy flows in all of the machine.
  std::optional<std::vector<std::size_t>> gpus;
  bool cpus = true;  // whether to measure processors and their memory
  // Where to look.
  std::vector<GpuVendor> vendors = gpu_vendors();
  std::string powercap = powercap_root();
  // How long a vendor's library may take to open; each device may always take opening_patience().
  Seconds patience = opening_patience();
};

// The devices of a machine, and those that could not be opened; `unavailable` names processors' counters, too.
struct MachineDevices : OpenedGpus {
  std::vector<std::shared_ptr<CpuDevice>> cpus;  // also those that this process may not read
  std::vector<Meter> meters;                     // what can be measured: GPU:0, ..., CPU:0, DRAM:0, ...
};

// Looks for every kind of device. A machine without devices is no error, and a device whose driver hangs is unavailable
// (kTimeout). Throws UsageError where `options` names a GPU that is not there, and its driver's error where that GPU is
// there but did not open.
[[nodiscard]] MachineDevices open_machine(const MachineOptions& options = {});

struct DeviceEnergy {
  std::string device;  // "GPU:0"
  Joules energy;
  Watts mean;
  Watts peak;  // the largest mean over a step of the sensor, or over 20 ms if that is longer
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;  // 0 while unknown
  bool complete = true;   // false: the energy is extrapolated by up to one sensor period, or readings are missing
  std::string problem;    // why readings failed within the window; empty where none did

  // Whether readings are missing, so that the energy is less than what the device took, by an unknown amount.
  [[nodiscard]] bool lacks_readings() const { return !problem.empty(); }
};

struct WindowEnergy {
  Seconds time;
  std::vector<DeviceEnergy> devices;

  [[nodiscard]] Joules total() const;
  // False where the energy of at least one device is not complete.
  [[nodiscard]] bool complete() const;
};

// Thread-safe. Windows may overlap, and may last for any time. begin() and stop() cost one reading of every meter,
// which is not part of the window.
class Measurement {
 public:
  explicit Measurement(MachineDevices machine, Sampler::Options options = {});

  [[nodiscard]] const MachineDevices& machine() const { return machine_; }
  [[nodiscard]] Sampler& sampler() { return sampler_; }

  // Waits until the sensors have been seen to change twice, so that a window that then begins is exact from its begin;
  // waits `longest` at most. It takes about two sensor periods: 0.04 to 0.2 s.
  void warm_up(Seconds longest);

  [[nodiscard]] std::uint64_t begin();

  // Ends the window and returns its length. Its energy can be asked for later, when the sensors have shown it without
  // anyone waiting. Throws UsageError for a window that is not open.
  Seconds stop(std::uint64_t window);

  // Returns the energy of a window, and ends it if stop() has not. Waits `settle` at most until the sensors have shown
  // the energy until its end; where they have not, the last sensor period is extrapolated. Throws UsageError for a
  // window that is not open.
  WindowEnergy end(std::uint64_t window, Seconds settle = Seconds(0));

 private:
  struct Open {
    Nanoseconds begin = 0;
    std::optional<Nanoseconds> end;
    std::vector<std::size_t> failed;  // failed readings of each meter at the begin
  };

  MachineDevices machine_;
  Sampler sampler_;
  std::mutex mutex_;  // guards all below
  std::map<std::uint64_t, Open> open_;
};

}  // namespace flyball
