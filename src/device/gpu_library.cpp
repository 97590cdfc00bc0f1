#include "device/gpu_library.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "device/patience.h"

namespace flyball {

void open_devices(GpuLibrary& library, std::size_t count, std::size_t first_index,
                  const std::function<std::shared_ptr<GpuDevice>(std::size_t)>& open) {
  const Seconds patience = opening_patience();
  std::vector<PendingAnswer<std::shared_ptr<GpuDevice>>> answers;
  answers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) answers.emplace_back([open, i] { return open(i); });
  for (std::size_t i = 0; i < count; ++i) {
    // A device that cannot be opened is part of the answer: one of the few places that catch.
    try {
      library.devices.push_back(answers[i].get(patience, fmt::format("GPU:{}", first_index + i)));
    } catch (const DeviceError& error) {
      library.refused.push_back({first_index + i, error, [open, i] { return open(i); }});
    }
  }
}

void call_aside(std::function<void()> call) {
  // Called by destructors: neither a driver that hangs nor a machine without room for a thread may end the program.
  try {
    answer_within(kAnswerPatience, "closing", std::move(call));
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace flyball
