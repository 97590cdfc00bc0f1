// CUDA's driver interface, as <cuda.h> declares it, which a machine without GPUs need not have.
#include "device.h"

#include <stdexcept>
#include <string>

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
extern "C" {
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);
}
// NOLINTEND(readability-identifier-naming)

namespace trainer {
namespace {

void check(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + " answers " + std::to_string(result));
}

void check_sim(int result) {
  if (result != FLYBALL_SIM_OK) throw std::runtime_error(flyball_sim_error_text(result));
}

}  // namespace

Device::Device(unsigned gpu, bool run_ahead) : gpu_(gpu) {
  if (!run_ahead) return;
  void* context = nullptr;
  check(cuInit(0), "cuInit");
  check(cuDevicePrimaryCtxRetain(&context, static_cast<int>(gpu)), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  constexpr unsigned kNonBlocking = 1;
  check(cuStreamCreate(&stream_, kNonBlocking), "cuStreamCreate");
}

Device::~Device() {
  if (stream_ != nullptr) (void)cuStreamDestroy_v2(stream_);
}

void Device::compute(const char* kind, double seconds) {
  check_sim(stream_ != nullptr ? flyball_sim_queue_work(stream_, kind, seconds)
                               : flyball_sim_work(gpu_, kind, seconds, nullptr));
}

void Device::then(void (*function)(void*), void* data) {
  if (stream_ == nullptr) return function(data);
  check(cuLaunchHostFunc(stream_, function, data), "cuLaunchHostFunc");
}

void Device::wait() {
  if (stream_ != nullptr) check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace trainer
