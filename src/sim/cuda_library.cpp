// The calls of the simulated libcuda.so.1 over simulated boards: what a program needs to queue work, host functions and
// events in streams. Handles are looked up before they are used, so that a wrong one is an error, as with the vendor's
// library. A host function that calls CUDA is refused, as the vendor reserves the right to.
#include <array>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "driver/cuda_abi.h"
#include "flyball/sim.h"
#include "sim/cuda_stream.h"

namespace flyball {
namespace {

constexpr int kCudaVersion = 12040;
constexpr double kLongestWork = 1e6;

struct Context {
  int retained = 0;
  std::shared_ptr<SimStream> default_stream;
};

// What the process has of the boards.
struct Library {
  std::mutex mutex;
  std::shared_ptr<Machine> machine;  // null before cuInit
  std::array<Context, kSimBoards> contexts;
  struct Stream {
    std::size_t board = 0;
    std::shared_ptr<SimStream> stream;
  };
  std::map<CudaStream, Stream> streams;
  std::map<CudaEvent, std::shared_ptr<SimEvent>> events;
};

// Never destroyed: threads may still call while the process exits.
Library& library() {
  static auto& one = *new Library;
  return one;
}

thread_local CudaContext current = nullptr;

// Handles of contexts are the addresses of the contexts.
CudaContext handle_of(std::size_t board) { return reinterpret_cast<CudaContext>(&library().contexts[board]); }

// kSimBoards where the context is none, or not retained. Under the mutex.
std::size_t board_of(CudaContext context) {
  for (std::size_t board = 0; board < kSimBoards; ++board) {
    if (context == handle_of(board) && library().contexts[board].retained > 0) return board;
  }
  return kSimBoards;
}

// Body: CudaResult(Library&), under the mutex. No exception leaves this function.
template <class Body>
CudaResult call(Body body) {
  if (SimStream::in_host_function()) return kCudaErrorNotPermitted;
  try {
    Library& all = library();
    const std::scoped_lock lock(all.mutex);
    if (!all.machine) return kCudaErrorNotInitialized;
    return body(all);
  } catch (const std::exception&) {
    return kCudaErrorUnknown;
  }
}

template <class Body>
CudaResult on_device(CudaDevice device, Body body) {
  return call([&](Library& all) {
    const bool there = device >= 0 && static_cast<std::size_t>(device) < all.machine->board_count();
    return there ? body(all, static_cast<std::size_t>(device)) : kCudaErrorInvalidDevice;
  });
}

// Finds the stream that a handle, or no handle, names in the calling thread.
CudaResult find_stream(CudaStream handle, Library::Stream& found) {
  return call([&](Library& all) {
    if (handle != nullptr) {
      const auto known = all.streams.find(handle);
      if (known == all.streams.end()) return kCudaErrorInvalidHandle;
      found = known->second;
      return kCudaSuccess;
    }
    const std::size_t board = board_of(current);
    if (board == kSimBoards) return kCudaErrorInvalidContext;
    std::shared_ptr<SimStream>& own = all.contexts[board].default_stream;
    if (!own) own = SimStream::open(all.machine, board);
    found = {board, own};
    return kCudaSuccess;
  });
}

// Body: CudaResult(SimStream&), outside the mutex: it may wait.
template <class Body>
CudaResult on_stream(CudaStream handle, Body body) {
  Library::Stream found;
  const CudaResult result = find_stream(handle, found);
  if (result != kCudaSuccess) return result;
  if (found.stream->has_failed()) return kCudaErrorLaunchFailed;
  try {
    return body(*found.stream);
  } catch (const std::exception&) {
    return kCudaErrorUnknown;
  }
}

std::shared_ptr<SimEvent> find_event(CudaEvent handle) {
  std::shared_ptr<SimEvent> found;
  (void)call([&](Library& all) {
    const auto known = all.events.find(handle);
    if (known != all.events.end()) found = known->second;
    return kCudaSuccess;
  });
  return found;
}

// Body: CudaResult(const std::shared_ptr<SimEvent>&).
template <class Body>
CudaResult on_event(CudaEvent handle, Body body) {
  if (SimStream::in_host_function()) return kCudaErrorNotPermitted;
  const std::shared_ptr<SimEvent> event = find_event(handle);
  return event ? body(event) : kCudaErrorInvalidHandle;
}

CudaResult give_text(char* to, int length, const char* text) {
  if (to == nullptr || length < 1) return kCudaErrorInvalidValue;
  std::snprintf(to, static_cast<std::size_t>(length), "%s", text);
  return kCudaSuccess;
}

struct ErrorWords {
  CudaResult error;
  const char* name;
  const char* words;
};

constexpr ErrorWords kErrors[] = {{kCudaSuccess, "CUDA_SUCCESS", "no error"},
                                  {kCudaErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
                                  {kCudaErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
                                  {kCudaErrorNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
                                  {kCudaErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
                                  {kCudaErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
                                  {kCudaErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
                                  {kCudaErrorNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
                                  {kCudaErrorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
                                  {kCudaErrorNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
                                  {kCudaErrorUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"}};

CudaResult describe(CudaResult error, const char** text, const char* ErrorWords::*which) {
  if (text == nullptr) return kCudaErrorInvalidValue;
  *text = nullptr;
  for (const ErrorWords& one : kErrors) {
    if (one.error == error) *text = one.*which;
  }
  return *text != nullptr ? kCudaSuccess : kCudaErrorInvalidValue;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the vendor's names

CudaResult cuInit(unsigned flags) {
  if (flags != 0) return kCudaErrorInvalidValue;
  try {
    Library& all = library();
    const std::scoped_lock lock(all.mutex);
    if (all.machine && !all.machine->down()) return kCudaSuccess;
    all.machine = attached_machine();
    return all.machine ? kCudaSuccess : kCudaErrorNoDevice;
  } catch (const std::exception&) {
    return kCudaErrorUnknown;
  }
}

CudaResult cuDriverGetVersion(int* version) {
  if (version == nullptr) return kCudaErrorInvalidValue;
  *version = kCudaVersion;
  return kCudaSuccess;
}

CudaResult cuGetErrorName(CudaResult error, const char** name) { return describe(error, name, &ErrorWords::name); }
CudaResult cuGetErrorString(CudaResult error, const char** words) { return describe(error, words, &ErrorWords::words); }

CudaResult cuDeviceGetCount(int* count) {
  return call([&](Library& all) {
    if (count == nullptr) return kCudaErrorInvalidValue;
    *count = static_cast<int>(all.machine->board_count());
    return kCudaSuccess;
  });
}

CudaResult cuDeviceGet(CudaDevice* device, int ordinal) {
  return on_device(ordinal, [&](Library&, std::size_t) {
    if (device == nullptr) return kCudaErrorInvalidValue;
    *device = ordinal;
    return kCudaSuccess;
  });
}

CudaResult cuDeviceGetName(char* name, int length, CudaDevice device) {
  return on_device(device, [&](Library& all, std::size_t board) {
    return give_text(name, length, all.machine->spec(board).product);
  });
}

CudaResult cuDeviceGetPCIBusId(char* id, int length, CudaDevice device) {
  return on_device(device, [&](Library& all, std::size_t board) {
    return give_text(id, length, all.machine->spec(board).pci_bus_id);
  });
}

CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
  return on_device(device, [&](Library& all, std::size_t board) {
    if (context == nullptr) return kCudaErrorInvalidValue;
    ++all.contexts[board].retained;
    *context = handle_of(board);
    return kCudaSuccess;
  });
}

// The last release takes the context's streams with it.
CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
  return on_device(device, [&](Library& all, std::size_t board) {
    Context& context = all.contexts[board];
    if (context.retained == 0) return kCudaErrorInvalidContext;
    if (--context.retained > 0) return kCudaSuccess;
    if (context.default_stream) std::exchange(context.default_stream, nullptr)->close();
    for (auto known = all.streams.begin(); known != all.streams.end();) {
      const bool own = known->second.board == board;
      if (own) known->second.stream->close();
      known = own ? all.streams.erase(known) : std::next(known);
    }
    return kCudaSuccess;
  });
}

CudaResult cuCtxSetCurrent(CudaContext context) {
  return call([&](Library&) {
    if (context != nullptr && board_of(context) == kSimBoards) return kCudaErrorInvalidContext;
    current = context;
    return kCudaSuccess;
  });
}

CudaResult cuCtxGetCurrent(CudaContext* context) {
  return call([&](Library&) {
    if (context == nullptr) return kCudaErrorInvalidValue;
    *context = board_of(current) == kSimBoards ? nullptr : current;
    return kCudaSuccess;
  });
}

CudaResult cuCtxSynchronize() {
  std::vector<std::shared_ptr<SimStream>> streams;
  const CudaResult result = call([&](Library& all) {
    const std::size_t board = board_of(current);
    if (board == kSimBoards) return kCudaErrorInvalidContext;
    if (all.contexts[board].default_stream) streams.push_back(all.contexts[board].default_stream);
    for (const auto& [handle, known] : all.streams) {
      if (known.board == board) streams.push_back(known.stream);
    }
    return kCudaSuccess;
  });
  bool well = true;
  for (const auto& stream : streams) well = stream->wait() && well;
  return result != kCudaSuccess || well ? result : kCudaErrorLaunchFailed;
}

CudaResult cuStreamCreate(CudaStream* stream, unsigned flags) {
  return call([&](Library& all) {
    if (stream == nullptr || flags > kCudaStreamNonBlocking) return kCudaErrorInvalidValue;
    const std::size_t board = board_of(current);
    if (board == kSimBoards) return kCudaErrorInvalidContext;
    std::shared_ptr<SimStream> opened = SimStream::open(all.machine, board);
    *stream = reinterpret_cast<CudaStream>(opened.get());
    all.streams[*stream] = {board, std::move(opened)};
    return kCudaSuccess;
  });
}

CudaResult cuStreamDestroy_v2(CudaStream stream) {
  return call([&](Library& all) {
    const auto known = all.streams.find(stream);
    if (known == all.streams.end()) return kCudaErrorInvalidHandle;
    known->second.stream->close();
    all.streams.erase(known);
    return kCudaSuccess;
  });
}

CudaResult cuStreamQuery(CudaStream stream) {
  return on_stream(stream, [](SimStream& one) { return one.is_idle() ? kCudaSuccess : kCudaErrorNotReady; });
}

CudaResult cuStreamSynchronize(CudaStream stream) {
  return on_stream(stream, [](SimStream& one) { return one.wait() ? kCudaSuccess : kCudaErrorLaunchFailed; });
}

CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  if (flags != 0) return kCudaErrorInvalidValue;
  return on_event(event, [&](const std::shared_ptr<SimEvent>& found) {
    return on_stream(stream, [&](SimStream& one) {
      one.queue_wait(found);
      return kCudaSuccess;
    });
  });
}

CudaResult cuLaunchHostFunc(void* stream, CudaHostFunction function, void* data) {
  if (function == nullptr) return kCudaErrorInvalidValue;
  return on_stream(static_cast<CudaStream>(stream), [&](SimStream& one) {
    one.queue_host_function(function, data);
    return kCudaSuccess;
  });
}

CudaResult cuEventCreate(CudaEvent* event, unsigned flags) {
  return call([&](Library& all) {
    constexpr unsigned kKnownFlags = 1 | kCudaEventDisableTiming;  // 1: waiting for it sleeps, which it always does
    if (event == nullptr || (flags & ~kKnownFlags) != 0) return kCudaErrorInvalidValue;
    if (board_of(current) == kSimBoards) return kCudaErrorInvalidContext;
    auto made = std::make_shared<SimEvent>((flags & kCudaEventDisableTiming) == 0);
    *event = reinterpret_cast<CudaEvent>(made.get());
    all.events[*event] = std::move(made);
    return kCudaSuccess;
  });
}

CudaResult cuEventDestroy_v2(CudaEvent event) {
  return call([&](Library& all) { return all.events.erase(event) > 0 ? kCudaSuccess : kCudaErrorInvalidHandle; });
}

CudaResult cuEventRecord(CudaEvent event, CudaStream stream) {
  return on_event(event, [&](const std::shared_ptr<SimEvent>& found) {
    return on_stream(stream, [&](SimStream& one) {
      one.queue_event(found);
      return kCudaSuccess;
    });
  });
}

CudaResult cuEventQuery(CudaEvent event) {
  return on_event(event, [](const std::shared_ptr<SimEvent>& found) {
    const std::scoped_lock lock(found->mutex);
    return found->passed == found->recorded ? kCudaSuccess : kCudaErrorNotReady;
  });
}

CudaResult cuEventSynchronize(CudaEvent event) {
  return on_event(event, [](const std::shared_ptr<SimEvent>& found) {
    std::unique_lock lock(found->mutex);
    found->reached.wait(lock, [&, until = found->recorded] { return found->passed >= until; });
    return kCudaSuccess;
  });
}

CudaResult cuEventElapsedTime(float* milliseconds, CudaEvent begin, CudaEvent end) {
  if (milliseconds == nullptr) return kCudaErrorInvalidValue;
  Nanoseconds times[2] = {0, 0};
  const CudaEvent events[2] = {begin, end};
  for (int i = 0; i < 2; ++i) {
    const CudaResult result = on_event(events[i], [&](const std::shared_ptr<SimEvent>& found) {
      const std::scoped_lock lock(found->mutex);
      if (!found->timed || found->recorded == 0) return kCudaErrorInvalidHandle;
      times[i] = found->time;
      return found->passed == found->recorded ? kCudaSuccess : kCudaErrorNotReady;
    });
    if (result != kCudaSuccess) return result;
  }
  *milliseconds = static_cast<float>(static_cast<double>(times[1] - times[0]) * 1e-6);
  return kCudaSuccess;
}

// NOLINTEND(readability-identifier-naming)

}  // namespace flyball

// NOLINTNEXTLINE(readability-identifier-naming): a name of a C interface
int flyball_sim_queue_work(void* stream, const char* kind, double seconds_at_max_clock) {
  using namespace flyball;
  if (kind == nullptr || !(seconds_at_max_clock > 0.0 && seconds_at_max_clock <= kLongestWork)) {
    return FLYBALL_SIM_INVALID;
  }
  Library::Stream found;
  switch (find_stream(reinterpret_cast<CudaStream>(stream), found)) {
    case kCudaSuccess: break;
    case kCudaErrorNotInitialized: return FLYBALL_SIM_NO_MACHINE;
    default: return FLYBALL_SIM_INVALID;
  }
  try {
    const auto named = work_named(library().machine->spec(found.board), kind);
    if (!named) return FLYBALL_SIM_INVALID;
    if (found.stream->has_failed()) return FLYBALL_SIM_LOST;
    found.stream->queue_work(*named, Seconds(seconds_at_max_clock));
    return FLYBALL_SIM_OK;
  } catch (const std::exception&) {
    return FLYBALL_SIM_SYSTEM;
  }
}
