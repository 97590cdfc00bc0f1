// A GPU's streams by the driver's library that the program itself has loaded: a stream belongs to one library in one
// process, so nothing is loaded here. NVIDIA's libcuda.so.1 and AMD's libamdhip64.so have the same calls for it, under
// other names (cuLaunchHostFunc and hipLaunchHostFunc, cuEventRecord and hipEventRecord, ..., as their makers document
// them).
//
// A host function holds up the stream that it is queued in until a thread of the driver has woken up and run it: 70 to
// 200 us on an H100 (docs/decisions/0090-beside-the-stream.md). So functions are queued in a stream of their own that
// follows the program's by an event, and moments are events, which cost the GPU nothing.
#pragma once

#include <array>
#include <cstddef>

#include "base/units.h"

namespace flyball {

// The calls of one vendor's library. Immutable; thread-safe, like the vendors' calls.
class StreamLibrary {
 public:
  using Function = void (*)(void*);

  // Throws DeviceError, kNoDriver, where this process has loaded neither library, or one without these calls.
  StreamLibrary();

  // Has the driver call `function(data)` in a thread of its own when all is done that was queued in the stream before;
  // what is queued behind it waits for its return. The function must not call the vendor's library, and is never called
  // where work before it fails. `stream` is a CUstream or a hipStream_t; null is the default stream of the calling
  // thread's context. Costs less than a microsecond. Throws DeviceError, kDriver, where the driver refuses.
  void queue(void* stream, Function function, void* data) const;

 private:
  friend class StreamEvent;
  friend class StreamFollower;

  enum Name : std::size_t { kLaunch, kMakeEvent, kEndEvent, kRecord, kQuery, kElapsed, kMakeStream, kEndStream, kWait };
  static constexpr std::size_t kNames = kWait + 1;
  struct Known {
    const char* library;  // as users know it
    const char* vendor;
    std::array<const char*, kNames> calls;
  };
  static const Known kNvidia;
  static const Known kAmd;
  static const std::array<const char*, 4> kAmdLibraries;

  [[nodiscard]] bool find(const Known& known, const char* library);
  // Returns what the driver answers.
  template <class... Arguments>
  int ask(Name name, Arguments... arguments) const {
    return reinterpret_cast<int (*)(Arguments...)>(calls_[name])(arguments...);
  }
  // Throws DeviceError, kDriver, where it refuses.
  template <class... Arguments>
  void call(Name name, Arguments... arguments) const {
    if (const int result = ask(name, arguments...); result != 0) refuse(name, result);
  }
  [[noreturn]] void refuse(Name name, int result) const;

  const Known* known_ = nullptr;
  std::array<void*, kNames> calls_{};
};

// A moment of a stream that the GPU itself notes. Not thread-safe. Events and followers are made and used where the
// context of the stream's GPU is current. Making one costs microseconds, recording one less than one.
class StreamEvent {
 public:
  // `library` must outlive this. Throws DeviceError, kDriver, where the driver refuses, as the calls below do.
  explicit StreamEvent(const StreamLibrary& library);
  ~StreamEvent();
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  // From now on this is the moment at which all is done that was queued in the stream before.
  void record(void* stream);
  // Returns whether the GPU has come to it; false where work before it has failed, too.
  [[nodiscard]] bool reached() const;
  // Returns how much later than `earlier` the GPU came to it, below 0 if it came earlier. Both must have been reached.
  [[nodiscard]] Seconds since(const StreamEvent& earlier) const;

 private:
  friend class StreamFollower;
  const StreamLibrary& library_;
  void* event_ = nullptr;
};

// A stream of its own for host functions. Not thread-safe; what was queued before it ends is still called.
class StreamFollower {
 public:
  // As for StreamEvent.
  explicit StreamFollower(const StreamLibrary& library);
  ~StreamFollower();
  StreamFollower(const StreamFollower&) = delete;
  StreamFollower& operator=(const StreamFollower&) = delete;

  // So many functions an H100's driver (580) takes that wait to be called, 56 in fact. It makes the caller of the next
  // one wait for the first.
  static constexpr std::size_t kMostWaiting = 32;

  // Like StreamLibrary::queue(), but `stream` goes on meanwhile. Functions are called in the order of these calls.
  // Costs some microseconds, and more where too many wait to be called.
  void queue(void* stream, StreamLibrary::Function function, void* data);

  // For moments close to a function's call.
  [[nodiscard]] void* stream() const { return stream_; }

 private:
  const StreamLibrary& library_;
  StreamEvent fork_;
  void* stream_ = nullptr;
};

}  // namespace flyball
