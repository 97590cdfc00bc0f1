// Host functions in a GPU's streams, by the driver's library that the program itself has loaded: a stream belongs to
// one library in one process, so nothing is loaded here. NVIDIA's libcuda.so.1 and AMD's libamdhip64.so have the same
// call for it, cuLaunchHostFunc and hipLaunchHostFunc (both as their makers document them).
#pragma once

namespace flyball {

// Thread-safe, like the vendors' call.
class StreamLibrary {
 public:
  using Function = void (*)(void*);

  // Throws DeviceError, kNoDriver, where this process has loaded neither library, or one without that call.
  StreamLibrary();

  // Has the driver call `function(data)` in a thread of its own when all is done that was queued in the stream before;
  // what is queued behind it waits for its return. The function must not call the vendor's library, and is never called
  // where work before it fails. `stream` is a CUstream or a hipStream_t; null is the default stream of the calling
  // thread's context. Costs some microseconds. Throws DeviceError, kDriver, where the driver refuses.
  void queue(void* stream, Function function, void* data) const;

 private:
  const char* name_ = nullptr;  // of the call
  const char* vendor_ = nullptr;
  int (*launch_)(void* stream, Function function, void* data) = nullptr;
};

}  // namespace flyball
