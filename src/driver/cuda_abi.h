// What Flyball uses and simulates of CUDA's driver interface (libcuda.so.1), declared from its public documentation so
// that building needs no toolkit. Handles are opaque; values are those of cuda.h. An old name of a call is kept by the
// library for old programs: where a call has a newer form, its name carries a version.
#pragma once

namespace flyball {

// NOLINTBEGIN(readability-identifier-naming): the vendor's names

using CudaResult = int;  // CUresult
using CudaDevice = int;
using CudaContext = struct CudaContextHandle*;
// Handles as driver/stream_library.h calls the functions of all vendors.
using CudaStream = void*;  // null: the default stream of the thread's context
using CudaEvent = void*;
using CudaHostFunction = void (*)(void*);

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaErrorInvalidValue = 1;
inline constexpr CudaResult kCudaErrorNotInitialized = 3;
inline constexpr CudaResult kCudaErrorNoDevice = 100;
inline constexpr CudaResult kCudaErrorInvalidDevice = 101;
inline constexpr CudaResult kCudaErrorInvalidContext = 201;
inline constexpr CudaResult kCudaErrorInvalidHandle = 400;
inline constexpr CudaResult kCudaErrorNotReady = 600;
inline constexpr CudaResult kCudaErrorLaunchFailed = 719;
inline constexpr CudaResult kCudaErrorNotPermitted = 800;
inline constexpr CudaResult kCudaErrorUnknown = 999;

inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;

extern "C" {
CudaResult cuInit(unsigned flags);
CudaResult cuDriverGetVersion(int* version);
CudaResult cuGetErrorName(CudaResult error, const char** name);
CudaResult cuGetErrorString(CudaResult error, const char** words);
CudaResult cuDeviceGetCount(int* count);
CudaResult cuDeviceGet(CudaDevice* device, int ordinal);
CudaResult cuDeviceGetName(char* name, int length, CudaDevice device);
CudaResult cuDeviceGetPCIBusId(char* id, int length, CudaDevice device);
CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device);
CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device);
CudaResult cuCtxSetCurrent(CudaContext context);
CudaResult cuCtxGetCurrent(CudaContext* context);
CudaResult cuCtxSynchronize();
CudaResult cuStreamCreate(CudaStream* stream, unsigned flags);
CudaResult cuStreamDestroy_v2(CudaStream stream);
CudaResult cuStreamQuery(CudaStream stream);
CudaResult cuStreamSynchronize(CudaStream stream);
CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags);
CudaResult cuLaunchHostFunc(CudaStream stream, CudaHostFunction function, void* data);
CudaResult cuEventCreate(CudaEvent* event, unsigned flags);
CudaResult cuEventDestroy_v2(CudaEvent event);
CudaResult cuEventRecord(CudaEvent event, CudaStream stream);
CudaResult cuEventQuery(CudaEvent event);
CudaResult cuEventSynchronize(CudaEvent event);
CudaResult cuEventElapsedTime(float* milliseconds, CudaEvent begin, CudaEvent end);
}

// NOLINTEND(readability-identifier-naming)

}  // namespace flyball
