// Text of a trace as PyTorch's profiler writes it on a GPU, as long as wanted: made up, but in the form, with the
// fields and with about the mixture of a transformer's training. The same length gives the same bytes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace flyball {
namespace kineto_text {

inline constexpr int kPid = 4242;
inline constexpr int kLayers = 12;

struct Part {
  const char* module;
  const char* operation;
  const char* inner;
  const char* kernel;
  const char* backward;
};

inline constexpr Part kParts[] = {
    {"query", "aten::linear", "aten::addmm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
     "AddmmBackward0"},
    {"key", "aten::linear", "aten::addmm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
     "AddmmBackward0"},
    {"scores", "aten::matmul", "aten::bmm", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_nn", "BmmBackward0"},
    {"softmax", "aten::softmax", "aten::_softmax",
     "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 9, false, "
     "false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)",
     "SoftmaxBackward0"},
    {"gelu", "aten::gelu", "aten::gelu_",
     "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
     "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}, at::detail::Array<char*, 2> >(int, "
     "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType), at::detail::Array<char*, 2>)",
     "GeluBackward0"},
};

class Writer {
 public:
  explicit Writer(const std::function<void(std::string_view)>& write) : write_(write) {}

  template <class... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  void entry(const char* category, std::string_view name, double begin, double duration, int tid) {
    put("{}\n  {{\n    \"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {},\n    \"ts\": "
        "{:.3f}, "
        "\"dur\": {:.3f}",
        count_++ == 0 ? "" : ",", category, name, tid == 7 ? 0 : kPid, tid, begin, duration);
  }

  // One operation with its inner one, the launch and the kernel.
  void operation(const Part& part, std::string_view outer, std::string_view inner, long sequence, int forward_thread,
                 int tid) {
    const double at = clock_;
    entry("cpu_op", outer, at, 42.5, tid);
    const long outer_id = ++external_;
    put(",\n    \"args\": {{\n      \"External id\": {},\"Record function id\": 0, \"Sequence number\": {}, "
        "\"Fwd thread id\": {}, \"Concrete Inputs\": [\"\", \"\", \"\"], \"Input type\": [\"c10::BFloat16\", "
        "\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Strides\": [[393216, 768, 1], [768, 1], [1]], "
        "\"Input Dims\": [[32, 512, 768], [768, 768], [768]], \"Ev Idx\": {}\n    }}\n  }}",
        outer_id, sequence, forward_thread, outer_id - 1);
    entry("cpu_op", inner, at + 5.25, 31.0, tid);
    const long inner_id = ++external_;
    put(",\n    \"args\": {{\n      \"External id\": {},\"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\", "
        "\"1\"], \"Input Dims\": [[768], [16384, 768], [768, 768]], \"Ev Idx\": {}\n    }}\n  }}",
        inner_id, inner_id - 1);
    entry("cuda_runtime", "cudaLaunchKernel", at + 20.125, 6.5, tid);
    const long correlation = ++correlation_;
    put(",\n    \"args\": {{\n      \"External id\": {}, \"cbid\": 211, \"correlation\": {}\n    }}\n  }}", inner_id,
        correlation);
    put(",\n  {{\n    \"ph\": \"s\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {:.3f},\n    \"cat\": \"ac2g\", "
        "\"name\": "
        "\"ac2g\"\n  }}",
        correlation, kPid, tid, at + 20.125);
    ++count_;
    gpu_ = std::max(gpu_, at + 30.0);
    entry("kernel", part.kernel, gpu_, 55.875, 7);
    put(",\n    \"args\": {{\n      \"External id\": {}, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, "
        "\"correlation\": {}, \"registers per thread\": 90, \"shared memory\": 49152, \"blocks per SM\": 3.7, \"warps "
        "per "
        "SM\": 29.6, \"grid\": [128, 6, 1], \"block\": [256, 1, 1], \"est. achieved occupancy %\": 25\n    }}\n  }}",
        inner_id, correlation);
    put(",\n  {{\n    \"ph\": \"f\", \"id\": {}, \"pid\": 0, \"tid\": 7, \"ts\": {:.3f},\n    \"cat\": \"ac2g\", "
        "\"name\": "
        "\"ac2g\", \"bp\": \"e\"\n  }}",
        correlation, gpu_);
    ++count_;
    gpu_ += 56.0;
    clock_ += 45.0;
  }

  void step() {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Part& part : kParts) {
        entry("python_function", fmt::format("nn.Module: {}_{}", part.module, layer), clock_ - 1.0, 44.5, kPid);
        put(",\n    \"args\": {{\n      \"Python parent id\": {}, \"Python id\": {}, \"Python module id\": {}, \"Ev "
            "Idx\": "
            "{}\n    }}\n  }}",
            layer, ++python_, layer, external_);
        operation(part, part.operation, part.inner, sequence_++, 0, kPid);
      }
    }
    long sequence = sequence_;
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      for (auto part = std::rbegin(kParts); part != std::rend(kParts); ++part) {
        operation(*part, fmt::format("autograd::engine::evaluate_function: {}", part->backward), part->backward,
                  --sequence, 1, kPid + 1);
      }
    }
    write_(text_);
    bytes_ += text_.size();
    text_.clear();
  }

  void begin() {
    put("{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\"id\": 0, \"name\": \"made up\", "
        "\"totalGlobalMem\": 85899345920}}\n  ],\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": "
        "1700000000000000000,\n  \"traceEvents\": [");
  }
  void end() {
    put("\n  ],\n  \"traceName\": \"made-up.pt.trace.json\"\n}}\n");
    write_(text_);
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  const std::function<void(std::string_view)>& write_;
  std::string text_;
  std::size_t bytes_ = 0;
  std::uint64_t count_ = 0;
  double clock_ = 1000.0;
  double gpu_ = 0.0;
  long external_ = 0;
  long correlation_ = 0;
  long sequence_ = 0;
  long python_ = 0;
};

}  // namespace kineto_text

// Hands out text, piece by piece, until `bytes` are passed and the step is whole. Returns the number of entries.
inline std::uint64_t write_kineto_text(std::size_t bytes, const std::function<void(std::string_view)>& write) {
  kineto_text::Writer writer(write);
  writer.begin();
  do {
    writer.step();
  } while (writer.bytes() < bytes);
  writer.end();
  return writer.count();
}

}  // namespace flyball
