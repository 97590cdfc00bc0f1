// dlopen with RTLD_NOLOAD finds a library that is there already, by its file's name or by the name that it gives
// itself. One event serves all functions of a follower: a stream that waits for an event waits for its latest recording
// at the moment of that call.
#include "driver/stream_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "driver/device_error.h"

namespace flyball {
namespace {

// Of streams: they wait for no default stream, nor does one wait for them. The vendors have the same number.
constexpr unsigned kNonBlocking = 1;

}  // namespace

// AMD's library carries the version of ROCm in its name; frameworks bring a copy without one.
const StreamLibrary::Known StreamLibrary::kNvidia = {
    "libcuda.so.1",
    "NVIDIA",
    {"cuLaunchHostFunc", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime",
     "cuStreamCreate", "cuStreamDestroy_v2", "cuStreamWaitEvent"}};
const std::array<const char*, 4> StreamLibrary::kAmdLibraries = {"libamdhip64.so", "libamdhip64.so.7",
                                                                 "libamdhip64.so.6", "libamdhip64.so.5"};
const StreamLibrary::Known StreamLibrary::kAmd = {
    "libamdhip64.so",
    "AMD",
    {"hipLaunchHostFunc", "hipEventCreateWithFlags", "hipEventDestroy", "hipEventRecord", "hipEventQuery",
     "hipEventElapsedTime", "hipStreamCreateWithFlags", "hipStreamDestroy", "hipStreamWaitEvent"}};

StreamLibrary::StreamLibrary() {
  if (find(kNvidia, kNvidia.library)) return;
  for (const char* library : kAmdLibraries) {
    if (find(kAmd, library)) return;
  }
  throw DeviceError(DeviceFault::kNoDriver, "streams",
                    "this process has loaded neither libcuda.so.1 nor libamdhip64.so",
                    "make the stream before it is given to Flyball; without streams use the calls that take none");
}

bool StreamLibrary::find(const Known& known, const char* library) {
  // Never closed: functions that are queued outlive this object.
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  known_ = &known;
  std::transform(known.calls.begin(), known.calls.end(), calls_.begin(),
                 [&](const char* name) { return ::dlsym(handle, name); });
  const auto missing = std::find(calls_.begin(), calls_.end(), nullptr);
  if (missing == calls_.end()) return true;
  throw DeviceError(
      DeviceFault::kNoDriver, known.vendor,
      fmt::format("{} has no {}", library, known.calls[static_cast<std::size_t>(missing - calls_.begin())]),
      "install a driver of CUDA 10 or ROCm 5.2, or a newer one");
}

void StreamLibrary::refuse(Name name, int result) const {
  throw DeviceError(DeviceFault::kDriver, known_->vendor, fmt::format("{} answers {}", known_->calls[name], result),
                    "pass a stream of this process's GPU, or null, with that GPU's context current in this thread");
}

void StreamLibrary::queue(void* stream, Function function, void* data) const { call(kLaunch, stream, function, data); }

StreamEvent::StreamEvent(const StreamLibrary& library) : library_(library) {
  library.call(StreamLibrary::kMakeEvent, &event_, 0U);
}

StreamEvent::~StreamEvent() { static_cast<void>(library_.ask(StreamLibrary::kEndEvent, event_)); }

void StreamEvent::record(void* stream) { library_.call(StreamLibrary::kRecord, event_, stream); }

bool StreamEvent::reached() const { return library_.ask(StreamLibrary::kQuery, event_) == 0; }

Seconds StreamEvent::since(const StreamEvent& earlier) const {
  float milliseconds = 0.0F;
  library_.call(StreamLibrary::kElapsed, &milliseconds, earlier.event_, event_);
  return Seconds(static_cast<double>(milliseconds) / 1e3);
}

StreamFollower::StreamFollower(const StreamLibrary& library) : library_(library), fork_(library) {
  library.call(StreamLibrary::kMakeStream, &stream_, kNonBlocking);
}

StreamFollower::~StreamFollower() { static_cast<void>(library_.ask(StreamLibrary::kEndStream, stream_)); }

void StreamFollower::queue(void* stream, StreamLibrary::Function function, void* data) {
  fork_.record(stream);
  library_.call(StreamLibrary::kWait, stream_, fork_.event_, 0U);
  library_.queue(stream_, function, data);
}

}  // namespace flyball
