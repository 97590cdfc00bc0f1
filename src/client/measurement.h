// Measuring in the own process, without an agent: all devices of the machine as meters, and windows of time over them.
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
  // Only these, as the driver counts; all where not set. CUDA_VISIBLE_DEVICES is not heeded: it renumbers what one
  // program sees, while energy flows in all of the machine.
  std::optional<std::vector<std::size_t>> gpus;
  bool cpus = true;  // and their memory
  // Where to look.
  std::vector<GpuVendor> vendors = gpu_vendors();
  std::string powercap = powercap_root();
  Seconds patience = opening_patience();  // with a vendor's library; a device of it has opening_patience() either way
};

// What is there, and what not: among the unavailable, counters of processors, too.
struct MachineDevices : OpenedGpus {
  std::vector<std::shared_ptr<CpuDevice>> cpus;  // also those that this process may not read
  std::vector<Meter> meters;                     // what can be measured: GPU:0, ..., CPU:0, DRAM:0, ...
};

// Looks for every kind of device; none is no error, and one whose driver hangs is unavailable (kTimeout). Throws
// UsageError when `options` names a GPU that is not there, and what its driver said when it is there and would not
// open.
[[nodiscard]] MachineDevices open_machine(const MachineOptions& options = {});

struct DeviceEnergy {
  std::string device;  // "GPU:0"
  Joules energy;
  Watts mean;
  Watts peak;  // largest mean over one step of the sensor, at least 20 ms
  EnergySource source = EnergySource::kCounter;
  Seconds sensor_period;  // 0 while unknown
  bool complete = true;   // false: extrapolated at an end by up to one sensor period, or readings are missing
  std::string problem;    // why readings failed within the window; empty where none did

  // Readings are missing: the energy is less than what the device took, and nobody knows by how much.
  [[nodiscard]] bool lacks_readings() const { return !problem.empty(); }
};

struct WindowEnergy {
  Seconds time;
  std::vector<DeviceEnergy> devices;

  [[nodiscard]] Joules total() const;
  // False when at least one device's figure is not what it took.
  [[nodiscard]] bool complete() const;
};

// Thread-safe; windows may overlap and last as long as they like. begin and stop cost one reading of every meter and
// are not part of the window.
class Measurement {
 public:
  explicit Measurement(MachineDevices machine, Sampler::Options options = {});

  [[nodiscard]] const MachineDevices& machine() const { return machine_; }
  [[nodiscard]] Sampler& sampler() { return sampler_; }

  // Waits until the sensors have been seen to change twice, so that a window that begins now begins exactly; `longest`
  // at most. About two sensor periods: 0.04 to 0.2 s.
  void warm_up(Seconds longest);

  [[nodiscard]] std::uint64_t begin();

  // The window ends here; what it took can be asked for later, when the sensors have shown it without anyone waiting.
  // Throws UsageError for a window that is not open. Returns its length.
  Seconds stop(std::uint64_t window);

  // What a window took, stopped here if it was not before. Waits for at most `settle` until the sensors have shown what
  // flowed until its end; without, the last sensor period is extrapolated. Throws UsageError for a window that is not
  // open.
  WindowEnergy end(std::uint64_t window, Seconds settle = Seconds(0));

 private:
  struct Open {
    Nanoseconds begin = 0;
    std::optional<Nanoseconds> end;
    std::vector<std::size_t> failed;  // readings of every meter before
  };

  MachineDevices machine_;
  Sampler sampler_;
  std::mutex mutex_;  // guards all below
  std::map<std::uint64_t, Open> open_;
};

}  // namespace flyball
