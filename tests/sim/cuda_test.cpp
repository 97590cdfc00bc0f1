// CUDA's driver interface over simulated boards, called as programs call it. Time stands still but where a test moves
// it, so that what a stream has done by when is known.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <atomic>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/text.h"
#include "driver/cuda_abi.h"
#include "flyball/sim.h"
#include "sim/simulated.h"
#include "support/threads.h"

namespace flyball::testing {
namespace {

class Cuda : public ::testing::Test {
 protected:
  Cuda() {
    const auto path = std::filesystem::path(FLYBALL_PROGRAM).parent_path() / "sim" / "cuda" / "libcuda.so.1";
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
  }
  ~Cuda() override {
    for (std::size_t i = 0; i < contexts_; ++i)
      call<decltype(cuDevicePrimaryCtxRelease_v2)>("cuDevicePrimaryCtxRelease_v2")(0);
    wait_for_threads_to_end(1);
  }

  template <class Function>
  [[nodiscard]] Function* call(const char* name) const {
    void* found = ::dlsym(library_, name);
    if (found == nullptr) throw std::runtime_error(std::string("the library has no ") + name);
    return reinterpret_cast<Function*>(found);
  }

#define CUDA(name) (this->call<decltype(::flyball::name)>(#name))

  // Makes the first board's context current in this thread.
  void begin() {
    ASSERT_EQ(CUDA(cuInit)(0), kCudaSuccess);
    CudaContext context = nullptr;
    ASSERT_EQ(CUDA(cuDevicePrimaryCtxRetain)(&context, 0), kCudaSuccess);
    ++contexts_;
    ASSERT_EQ(CUDA(cuCtxSetCurrent)(context), kCudaSuccess);
  }
  [[nodiscard]] CudaStream make_stream() const {
    CudaStream stream = nullptr;
    EXPECT_EQ(CUDA(cuStreamCreate)(&stream, kCudaStreamNonBlocking), kCudaSuccess);
    return stream;
  }
  [[nodiscard]] CudaEvent make_event() const {
    CudaEvent event = nullptr;
    EXPECT_EQ(CUDA(cuEventCreate)(&event, 0), kCudaSuccess);
    return event;
  }
  void work(CudaStream stream, double seconds) const {
    ASSERT_EQ(call<decltype(flyball_sim_queue_work)>("flyball_sim_queue_work")(stream, "forward", seconds),
              FLYBALL_SIM_OK);
  }
  static void pass(double seconds) { ASSERT_EQ(flyball_sim_add_time(seconds), FLYBALL_SIM_OK); }
  // Waits until a piece of work is on the board that began so many seconds after the machine.
  [[nodiscard]] bool works_since(double seconds) const {
    return wait_until([&] {
      for (const SimWork& work : machine_.state().works) {
        if (work.state == WorkState::kRunning && std::abs(to_seconds(work.begin - kSimStart).value() - seconds) < 1e-6)
          return true;
      }
      return false;
    });
  }
  static void count(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

  SimulatedMachine machine_;
  void* library_ = nullptr;
  std::size_t contexts_ = 0;
};

TEST_F(Cuda, ExportsEveryCallOfTheHeader) {
  const std::string header = read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/src/driver/cuda_abi.h");
  const std::regex declaration(R"(CudaResult (cu\w+)\()");
  int names = 0;
  for (std::sregex_iterator match(header.begin(), header.end(), declaration), end; match != end; ++match, ++names) {
    EXPECT_NE(::dlsym(library_, (*match)[1].str().c_str()), nullptr) << (*match)[1];
  }
  EXPECT_EQ(names, 25);
}

TEST_F(Cuda, ReturnsBeforeTheWorkIsDoneAndDoesItInOrder) {
  begin();
  auto* const stream = make_stream();
  std::atomic<int> between{0};
  work(stream, 1.0);
  ASSERT_EQ(CUDA(cuLaunchHostFunc)(stream, count, &between), kCudaSuccess);
  work(stream, 2.0);
  EXPECT_TRUE(works_since(0.0));
  pass(0.9);
  EXPECT_EQ(CUDA(cuStreamQuery)(stream), kCudaErrorNotReady);
  EXPECT_EQ(between, 0);
  // The first work has ended at 1.0, and the machine's time stands at 1.1 while the host function runs.
  pass(0.2);
  EXPECT_TRUE(works_since(1.1));
  EXPECT_EQ(between, 1);
  pass(1.9);
  EXPECT_EQ(CUDA(cuStreamQuery)(stream), kCudaErrorNotReady);
  pass(0.2);
  EXPECT_EQ(CUDA(cuStreamSynchronize)(stream), kCudaSuccess);
  EXPECT_EQ(CUDA(cuStreamQuery)(stream), kCudaSuccess);
  EXPECT_EQ(CUDA(cuStreamDestroy_v2)(stream), kCudaSuccess);
  EXPECT_EQ(CUDA(cuStreamDestroy_v2)(stream), kCudaErrorInvalidHandle);
}

// 1 s and 2 s of work, without time between them.
TEST_F(Cuda, EventsTellTheTimesOfTheDevice) {
  begin();
  auto* const first = make_event();
  auto* const last = make_event();
  float milliseconds = 0.0F;
  EXPECT_EQ(CUDA(cuEventQuery)(first), kCudaSuccess);  // never recorded: nothing to wait for
  EXPECT_EQ(CUDA(cuEventElapsedTime)(&milliseconds, first, last), kCudaErrorInvalidHandle);
  ASSERT_EQ(CUDA(cuEventRecord)(first, nullptr), kCudaSuccess);
  work(nullptr, 1.0);
  work(nullptr, 2.0);
  ASSERT_EQ(CUDA(cuEventRecord)(last, nullptr), kCudaSuccess);
  EXPECT_TRUE(works_since(0.0));
  EXPECT_EQ(CUDA(cuEventQuery)(last), kCudaErrorNotReady);
  EXPECT_EQ(CUDA(cuEventElapsedTime)(&milliseconds, first, last), kCudaErrorNotReady);
  pass(1.0);
  EXPECT_TRUE(works_since(1.0));
  pass(2.5);
  EXPECT_EQ(CUDA(cuEventSynchronize)(last), kCudaSuccess);
  EXPECT_EQ(CUDA(cuEventElapsedTime)(&milliseconds, first, last), kCudaSuccess);
  EXPECT_NEAR(milliseconds, 3000.0F, 1e-3F);
  EXPECT_EQ(CUDA(cuEventDestroy_v2)(first), kCudaSuccess);
  EXPECT_EQ(CUDA(cuEventQuery)(first), kCudaErrorInvalidHandle);
  EXPECT_EQ(CUDA(cuEventDestroy_v2)(last), kCudaSuccess);
}

TEST_F(Cuda, StreamsRunSideBySideAndWaitForEachOthersEvents) {
  begin();
  auto* const first = make_stream();
  auto* const second = make_stream();
  auto* const event = make_event();
  std::atomic<int> done{0};
  work(first, 1.0);
  ASSERT_EQ(CUDA(cuEventRecord)(event, first), kCudaSuccess);
  ASSERT_EQ(CUDA(cuLaunchHostFunc)(second, count, &done), kCudaSuccess);
  ASSERT_EQ(CUDA(cuStreamWaitEvent)(second, event, 0), kCudaSuccess);
  ASSERT_EQ(CUDA(cuLaunchHostFunc)(second, count, &done), kCudaSuccess);
  EXPECT_TRUE(wait_until([&] { return done == 1; }));
  pass(0.9);
  EXPECT_EQ(CUDA(cuStreamQuery)(second), kCudaErrorNotReady);
  pass(0.2);
  EXPECT_EQ(CUDA(cuCtxSynchronize)(), kCudaSuccess);
  EXPECT_EQ(done, 2);
}

struct WithinHostFunction {
  decltype(cuStreamQuery)* query = nullptr;
  CudaResult result = kCudaSuccess;
};

TEST_F(Cuda, AHostFunctionMayNotCallCuda) {
  begin();
  WithinHostFunction within{CUDA(cuStreamQuery)};
  ASSERT_EQ(CUDA(cuLaunchHostFunc)(
                nullptr,
                [](void* data) {
                  auto& one = *static_cast<WithinHostFunction*>(data);
                  one.result = one.query(nullptr);
                },
                &within),
            kCudaSuccess);
  EXPECT_EQ(CUDA(cuStreamSynchronize)(nullptr), kCudaSuccess);
  EXPECT_EQ(within.result, kCudaErrorNotPermitted);
}

TEST_F(Cuda, NothingIsDoneBehindWorkThatFailed) {
  begin();
  auto* const stream = make_stream();
  std::atomic<int> behind{0};
  work(stream, 1.0);
  ASSERT_EQ(CUDA(cuLaunchHostFunc)(stream, count, &behind), kCudaSuccess);
  ASSERT_EQ(flyball_sim_fault(0, "lost"), FLYBALL_SIM_OK);
  EXPECT_EQ(CUDA(cuStreamSynchronize)(stream), kCudaErrorLaunchFailed);
  EXPECT_EQ(CUDA(cuLaunchHostFunc)(stream, count, &behind), kCudaErrorLaunchFailed);
  EXPECT_EQ(behind, 0);
}

TEST_F(Cuda, RefusesWhatIsNotThere) {
  EXPECT_EQ(CUDA(cuInit)(1), kCudaErrorInvalidValue);
  begin();
  CudaDevice device = 0;
  EXPECT_EQ(CUDA(cuDeviceGet)(&device, 1), kCudaErrorInvalidDevice);
  char text[32] = {};
  EXPECT_EQ(CUDA(cuDeviceGetName)(text, sizeof text, 0), kCudaSuccess);
  EXPECT_STREQ(text, "NVIDIA A100 80GB PCIe");
  EXPECT_EQ(CUDA(cuLaunchHostFunc)(nullptr, nullptr, nullptr), kCudaErrorInvalidValue);
  EXPECT_EQ(CUDA(cuStreamQuery)(reinterpret_cast<CudaStream>(&device)), kCudaErrorInvalidHandle);
  CudaResult elsewhere = kCudaSuccess;
  std::thread([&] { elsewhere = CUDA(cuStreamQuery)(nullptr); }).join();
  EXPECT_EQ(elsewhere, kCudaErrorInvalidContext);  // a context is a thread's own
  const auto queue = call<decltype(flyball_sim_queue_work)>("flyball_sim_queue_work");
  EXPECT_EQ(queue(nullptr, "sideward", 1.0), FLYBALL_SIM_INVALID);
  EXPECT_EQ(queue(nullptr, "forward", 0.0), FLYBALL_SIM_INVALID);
  const char* name = nullptr;
  EXPECT_EQ(CUDA(cuGetErrorName)(kCudaErrorNotReady, &name), kCudaSuccess);
  EXPECT_STREQ(name, "CUDA_ERROR_NOT_READY");
}

}  // namespace
}  // namespace flyball::testing
