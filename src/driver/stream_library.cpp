// dlopen with RTLD_NOLOAD finds a library that is there already, by its file's name or by the name that it gives
// itself.
#include "driver/stream_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "driver/device_error.h"

namespace flyball {
namespace {

struct Known {
  const char* library;
  const char* vendor;
  const char* call;
};

// AMD's name carries the version of ROCm; frameworks bring a copy without one.
constexpr Known kKnown[] = {{"libcuda.so.1", "NVIDIA", "cuLaunchHostFunc"},
                            {"libamdhip64.so", "AMD", "hipLaunchHostFunc"},
                            {"libamdhip64.so.7", "AMD", "hipLaunchHostFunc"},
                            {"libamdhip64.so.6", "AMD", "hipLaunchHostFunc"},
                            {"libamdhip64.so.5", "AMD", "hipLaunchHostFunc"}};

}  // namespace

StreamLibrary::StreamLibrary() {
  for (const Known& known : kKnown) {
    // Never closed: functions that are queued outlive this object.
    void* library = ::dlopen(known.library, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    name_ = known.call;
    vendor_ = known.vendor;
    launch_ = reinterpret_cast<decltype(launch_)>(::dlsym(library, known.call));
    if (launch_ != nullptr) return;
    throw DeviceError(DeviceFault::kNoDriver, vendor_, fmt::format("{} has no {}", known.library, known.call),
                      "install a driver of CUDA 10 or ROCm 5.2, or a newer one");
  }
  throw DeviceError(DeviceFault::kNoDriver, "streams",
                    "this process has loaded neither libcuda.so.1 nor libamdhip64.so",
                    "make the stream before it is given to Flyball; without streams use the calls that take none");
}

void StreamLibrary::queue(void* stream, Function function, void* data) const {
  const int result = launch_(stream, function, data);
  if (result == 0) return;
  throw DeviceError(DeviceFault::kDriver, vendor_, fmt::format("{} answers {}", name_, result),
                    "pass a stream of this process's GPU, or null with the GPU's context current in this thread");
}

}  // namespace flyball
