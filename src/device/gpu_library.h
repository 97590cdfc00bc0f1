// What the drivers of all vendors do alike when a library is opened and closed: ask within bounded time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "device/gpu.h"
#include "device/shared_library.h"

namespace flyball {

// Opens devices 0 to count - 1 of a library, all at once and each within opening_patience(): a device that hangs keeps
// none of the others. `open` runs in threads of its own, so it must own what it uses; what it throws as DeviceError goes
// to `library.refused`, under the name "GPU:<first_index + i>" where the driver does not answer.
void open_devices(GpuLibrary& library, std::size_t count, std::size_t first_index,
                  const std::function<std::shared_ptr<GpuDevice>(std::size_t)>& open);

// Calls what may hang and whose outcome matters to nobody, and waits for it within kAnswerPatience.
void call_aside(std::function<void()> call);

// A library's last function. Where it hangs, it keeps the library loaded.
template <class Result>
void close_aside(const std::shared_ptr<const SharedLibrary>& library, Result (*last_call)()) {
  call_aside([library, last_call] { static_cast<void>(last_call()); });
}

}  // namespace flyball
