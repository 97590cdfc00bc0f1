// The source of power streams and account sessions: one sampler over all devices. It runs only while somebody listens
// and a few seconds longer, since on real boards a reading costs tens of microseconds. A sampler whose driver hangs is
// kept until the driver answers. To end it earlier would make the loop wait, and would leave one more blocked thread
// behind for each client that comes and goes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "driver/cpu.h"
#include "driver/gpu.h"
#include "measure/sampler.h"

namespace flyball {

inline constexpr Seconds kGlancePeriod{0.05};  // for clients that only look at the latest power, as those of zeusd do

// May be used in the loop's thread only.
class PowerFeed {
 public:
  // Processors whose counters may not be read are left out. The history that `sampling` asks for is replaced.
  PowerFeed(const std::vector<std::shared_ptr<GpuDevice>>& gpus, const std::vector<std::shared_ptr<CpuDevice>>& cpus,
            const Sampler::Options& sampling);
  // Makes a feed of the same devices that is read at another period.
  PowerFeed(const PowerFeed& other, Seconds period);

  // Ends a sampler that nobody has needed for a while, in another thread. Must be called now and then.
  void rest();

  // A listener keeps the sampler running while it lives. It must not outlive the feed.
  class Listener {
   public:
    explicit Listener(PowerFeed& feed) : feed_(feed) { feed_.listen(); }
    ~Listener() { feed_.leave(); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // The sampler, which lives as long as this listener. The feed must have devices.
    [[nodiscard]] Sampler& sampler() const { return *feed_.sampler_; }

   private:
    PowerFeed& feed_;
  };

  // The names of the devices by index: "GPU:0", "CPU:0", "DRAM:0".
  [[nodiscard]] const std::vector<std::string>& devices() const { return labels_; }
  // Returns the samples later than `after` (CLOCK_MONOTONIC), oldest first; none where nobody listens.
  [[nodiscard]] std::vector<PowerSample> since(std::size_t device, Nanoseconds after) const;
  [[nodiscard]] std::optional<PowerSample> latest(std::size_t device) const;

  [[nodiscard]] std::size_t listeners() const { return listeners_; }
  [[nodiscard]] std::size_t late_samples() const;  // since the agent started
  [[nodiscard]] Seconds period() const { return sampling_.period; }

 private:
  void listen();
  void leave();

  Sampler::Options sampling_;
  std::vector<Meter> meters_;
  std::vector<std::string> labels_;
  std::unique_ptr<Sampler> sampler_;
  Nanoseconds left_ = 0;  // when the last listener went
  std::size_t listeners_ = 0;
  std::size_t late_before_ = 0;  // of samplers that have ended
};

}  // namespace flyball
