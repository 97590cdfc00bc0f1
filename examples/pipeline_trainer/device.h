// The GPU of a stage: computations that are waited for, or queued in a stream of the device, as real frameworks do it.
#pragma once

#include "flyball/sim.h"

namespace trainer {

class Device {
 public:
  // `run_ahead`: there is a stream. Throws where the driver refuses.
  Device(unsigned gpu, bool run_ahead);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Computes something of that kind that takes so long at the GPU's highest clock: queues it where there is a stream,
  // and waits for it otherwise.
  void compute(const char* kind, double seconds);
  // Calls `function(data)` when all that was queued before is done: at once, or in a thread of the driver. It must not
  // use the device.
  void then(void (*function)(void*), void* data);
  // Returns once all that was queued is done.
  void wait();

  [[nodiscard]] void* stream() const { return stream_; }

 private:
  unsigned gpu_;
  void* stream_ = nullptr;
};

}  // namespace trainer
