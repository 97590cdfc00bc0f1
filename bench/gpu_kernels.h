// Loads for a GPU: kernels that multiply matrices or wait, written in PTX, which the driver translates, so that neither
// a toolkit nor a framework is needed.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <new>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "driver/cuda_abi.h"

namespace flyball {

using CudaModule = struct CudaModuleHandle*;
using CudaFunction = struct CudaFunctionHandle*;
inline constexpr int kAttributeMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

// The calls of libcuda.so.1 that the check needs, by the names of cuda.h.
struct Cuda {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

  template <class Function>
  Function* find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
  }

  decltype(&cuInit) init = find<decltype(cuInit)>("cuInit");
  decltype(&cuDeviceGetCount) count = find<decltype(cuDeviceGetCount)>("cuDeviceGetCount");
  decltype(&cuDeviceGet) device = find<decltype(cuDeviceGet)>("cuDeviceGet");
  decltype(&cuDeviceGetPCIBusId) bus_id = find<decltype(cuDeviceGetPCIBusId)>("cuDeviceGetPCIBusId");
  decltype(&cuDevicePrimaryCtxRetain) retain = find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  decltype(&cuCtxSetCurrent) set_current = find<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
  decltype(&cuStreamCreate) make_stream = find<decltype(cuStreamCreate)>("cuStreamCreate");
  decltype(&cuStreamSynchronize) synchronize = find<decltype(cuStreamSynchronize)>("cuStreamSynchronize");
  decltype(&cuLaunchHostFunc) host_function = find<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc");
  decltype(&cuEventCreate) make_event = find<decltype(cuEventCreate)>("cuEventCreate");
  decltype(&cuEventRecord) record = find<decltype(cuEventRecord)>("cuEventRecord");
  decltype(&cuEventElapsedTime) elapsed = find<decltype(cuEventElapsedTime)>("cuEventElapsedTime");
  CudaResult (*attribute)(int*, int, CudaDevice) = find<CudaResult(int*, int, CudaDevice)>("cuDeviceGetAttribute");
  CudaResult (*load)(CudaModule*, const void*) = find<CudaResult(CudaModule*, const void*)>("cuModuleLoadData");
  CudaResult (*function)(CudaFunction*, CudaModule,
                         const char*) = find<CudaResult(CudaFunction*, CudaModule, const char*)>("cuModuleGetFunction");
  CudaResult (*launch)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream,
                       void**,
                       void**) = find<CudaResult(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                 unsigned, unsigned, CudaStream, void**, void**)>("cuLaunchKernel");
  CudaResult (*host_memory)(void**, std::size_t) = find<CudaResult(void**, std::size_t)>("cuMemAllocHost_v2");
};

// Two kernels. `multiply` multiplies tiles of 16 x 16 half-precision numbers in every warp, `rounds` times four
// products that do not wait for each other. `wait_for` looks at a word of the host's memory until it is at least
// `value`, for 5 s at most.
inline std::string kernels() {
  std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry multiply(.param .u64 out, .param .u32 rounds)\n{\n"
      ".reg .pred %more, %never; .reg .b32 %left, %seed, %word, %a<8>, %b<8>; .reg .f32 %c<32>; .reg .b64 %to;\n"
      "ld.param.u32 %left, [rounds];\nmov.u32 %seed, %tid.x;\nmov.u32 %word, %ctaid.x;\n"
      "mad.lo.u32 %seed, %word, 7919, %seed;\n";
  for (const char* matrix : {"a", "b"}) {
    for (int i = 0; i < 8; ++i) {
      // Numbers of 1 to 2 with either sign: power depends on how many bits turn.
      text += fmt::format(
          "mad.lo.u32 %seed, %seed, 1664525, 1013904223;\nand.b32 %word, %seed, 0x83ff83ff;\n"
          "or.b32 %{}{}, %word, 0x3c003c00;\n",
          matrix, i);
    }
  }
  for (int i = 0; i < 32; ++i) text += fmt::format("mov.f32 %c{}, 0f00000000;\n", i);
  text += "again:\n";
  for (int set = 0; set < 4; ++set) {
    std::string sums;
    for (int i = 0; i < 8; ++i) sums += fmt::format("{}%c{}", i == 0 ? "" : ", ", 8 * set + i);
    text += fmt::format(
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{{0}}}, "
        "{{%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}}, {{%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}}, {{{0}}};\n",
        sums);
  }
  text += "sub.u32 %left, %left, 1;\nsetp.ne.u32 %more, %left, 0;\n@%more bra again;\n";
  // What is never used would not be computed.
  for (int i = 1; i < 32; ++i) text += fmt::format("add.f32 %c0, %c0, %c{};\n", i);
  text +=
      "setp.eq.f32 %never, %c0, 0f7149F2CA;\nld.param.u64 %to, [out];\n@%never st.global.f32 [%to], %c0;\nret;\n}\n"
      ".visible .entry wait_for(.param .u64 flag, .param .u32 value)\n{\n"
      ".reg .pred %less, %early; .reg .b32 %is, %wanted; .reg .b64 %at, %now, %end;\n"
      "ld.param.u64 %at, [flag];\nld.param.u32 %wanted, [value];\nmov.u64 %end, %globaltimer;\n"
      "add.u64 %end, %end, 5000000000;\nlook:\nld.volatile.global.u32 %is, [%at];\nmov.u64 %now, %globaltimer;\n"
      "setp.lt.u64 %early, %now, %end;\nsetp.lt.and.u32 %less, %is, %wanted, %early;\n@%less bra look;\nret;\n}\n";
  return text;
}

class Kernels {
 public:
  // Uses CUDA's device at this PCI address. Throws Error where there is none, or where it cannot run kernels.
  explicit Kernels(const std::string& pci_bus_id) {
    if (cuda_.launch == nullptr || cuda_.load == nullptr || cuda_.host_memory == nullptr) {
      throw SystemError("there is no libcuda.so.1 that runs kernels");
    }
    check(cuda_.init(0), "cuInit");
    int count = 0;
    check(cuda_.count(&count), "cuDeviceGetCount");
    for (int i = 0; i < count && !found_; ++i) {
      std::array<char, 64> id{};
      check(cuda_.device(&device_, i), "cuDeviceGet");
      check(cuda_.bus_id(id.data(), id.size(), device_), "cuDeviceGetPCIBusId");
      // NVML writes eight digits of the domain, CUDA four.
      std::string nvml = pci_bus_id;
      std::string cuda = id.data();
      for (std::string* text : {&nvml, &cuda}) {
        std::transform(text->begin(), text->end(), text->begin(), [](unsigned char c) { return std::tolower(c); });
      }
      found_ = nvml.size() >= cuda.size() && nvml.compare(nvml.size() - cuda.size(), cuda.size(), cuda) == 0;
    }
    if (!found_) throw SystemError(fmt::format("CUDA shows no device at {}", pci_bus_id));
    check(cuda_.retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    use_in_this_thread();
    check(cuda_.attribute(&multiprocessors_, kAttributeMultiprocessors, device_), "cuDeviceGetAttribute");
    CudaModule module = nullptr;
    check(cuda_.load(&module, kernels().c_str()), "cuModuleLoadData");
    check(cuda_.function(&multiply_, module, "multiply"), "cuModuleGetFunction");
    check(cuda_.function(&wait_for_, module, "wait_for"), "cuModuleGetFunction");
    void* word = nullptr;
    check(cuda_.host_memory(&word, sizeof(unsigned)), "cuMemAllocHost");
    flag_ = new (word) std::atomic<unsigned>(0);
    check(cuda_.make_stream(&stream_, kCudaStreamNonBlocking), "cuStreamCreate");
    for (CudaEvent* event : {&begin_, &end_}) check(cuda_.make_event(event, 0), "cuEventCreate");
    calibrate();
  }

  void use_in_this_thread() { check(cuda_.set_current(context_), "cuCtxSetCurrent"); }
  [[nodiscard]] CudaStream stream() const { return stream_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] double tflops() const {  // of `multiply`, as calibrated
    return 4.0 * 2.0 * 16 * 16 * 16 * 8 * 2 * multiprocessors_ / seconds_per_round_ / 1e12;
  }

  // Queues matrix products that take about `time`.
  void multiply(Seconds time) { queue_rounds(static_cast<unsigned>(std::max(1.0, time.value() / seconds_per_round_))); }
  // Queues a kernel of one warp that waits until release() was called once more than before.
  void wait() {
    unsigned value = ++waiting_;
    void* flag = flag_;
    std::array<void*, 2> arguments{static_cast<void*>(&flag), &value};
    check(cuda_.launch(wait_for_, 1, 1, 1, 32, 1, 1, 0, stream_, arguments.data(), nullptr), "cuLaunchKernel");
  }
  // Queues a function in the stream itself.
  void queue_function(CudaHostFunction function, void* data) {
    check(cuda_.host_function(stream_, function, data), "cuLaunchHostFunc");
  }
  void release() { flag_->fetch_add(1); }
  void finish() { check(cuda_.synchronize(stream_), "cuStreamSynchronize"); }

  // Returns what the GPU takes for what `work` queues.
  template <class Work>
  Seconds time_of(const Work& work) {
    check(cuda_.record(begin_, stream_), "cuEventRecord");
    work();
    check(cuda_.record(end_, stream_), "cuEventRecord");
    finish();
    float milliseconds = 0.0F;
    check(cuda_.elapsed(&milliseconds, begin_, end_), "cuEventElapsedTime");
    return Seconds(milliseconds / 1e3);
  }

 private:
  static void check(CudaResult result, const char* what) {
    if (result != kCudaSuccess) throw SystemError(fmt::format("{} answers {}", what, result));
  }

  void queue_rounds(unsigned rounds) {
    void* out = flag_;
    std::array<void*, 2> arguments{static_cast<void*>(&out), &rounds};
    const auto blocks = static_cast<unsigned>(2 * multiprocessors_);  // of eight warps
    check(cuda_.launch(multiply_, blocks, 1, 1, 256, 1, 1, 0, stream_, arguments.data(), nullptr), "cuLaunchKernel");
  }

  void calibrate() {
    queue_rounds(1000);
    finish();
    // Its clock rises within some milliseconds of work.
    for (unsigned rounds : {20000U, 20000U}) {
      seconds_per_round_ = time_of([&] { queue_rounds(rounds); }).value() / rounds;
    }
  }

  Cuda cuda_;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  bool found_ = false;
  int multiprocessors_ = 0;
  CudaFunction multiply_ = nullptr;
  CudaFunction wait_for_ = nullptr;
  CudaStream stream_ = nullptr;
  CudaEvent begin_ = nullptr;
  CudaEvent end_ = nullptr;
  std::atomic<unsigned>* flag_ = nullptr;
  unsigned waiting_ = 0;
  double seconds_per_round_ = 1e-6;
};

}  // namespace flyball
