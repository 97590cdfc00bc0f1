// A library that is loaded into a process before all others (LD_PRELOAD) and shifts its wall clock by as many seconds
// as the file FLYBALL_WALL_CLOCK says at that moment: a signed integer of 64 bits in the machine's byte order. Without
// the file, the clock stays the machine's.
//
// Nothing but the wall clock changes. libfaketime, which does the same and more, also shifts timers of the monotonic
// clock that are set to a point in time: those that were due at once then come never, and a server loses its timeouts.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Offset = const std::atomic<std::int64_t>;

// The file is mapped, since a clock is read often.
Offset* map_file() {
  static constexpr Offset kNone = 0;
  const char* path = std::getenv("FLYBALL_WALL_CLOCK");
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &kNone;
  void* mapped = ::mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  return mapped == MAP_FAILED ? &kNone : static_cast<Offset*>(mapped);
}

std::int64_t offset_s() {
  static Offset* const offset = map_file();
  return *offset;
}

using ClockGettime = int (*)(clockid_t, timespec*);

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto next = reinterpret_cast<ClockGettime>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += offset_s();
  return result;
}

int gettimeofday(timeval* __restrict time, void* __restrict) noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
