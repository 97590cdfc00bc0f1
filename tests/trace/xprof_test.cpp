// XProf's traces: what TensorFlow 2 and JAX really wrote (tests/trace/files), made-up ones of GPUs, whose answers
// follow from their numbers, and what is broken.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "support/expect_error.h"
#include "support/read_events.h"
#include "trace/xprof_names.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;

// --- names ---

TEST(XProfNames, Jax) {
  const auto expect = [](std::string_view text, std::string_view path, Phase phase) {
    const XProfName name = jax_name(text);
    EXPECT_EQ(name.path, path) << text;
    EXPECT_EQ(name.phase, phase) << text;
  };
  expect("jit(step)/jit(main)/transpose(jvp(encoder))/layer_0/dot_general", "encoder/layer_0/dot_general",
         Phase::kBackward);
  expect("jit(step)/jit(main)/jvp(encoder)/layer_0/jit(relu)/max", "encoder/layer_0/relu/max", Phase::kForward);
  expect("pjit(step)/jit(main)/transpose(jvp(lm.apply))/lm/reduce_sum[axes=(0, 1)]",
         "lm.apply/lm/reduce_sum[axes=(0, 1)]", Phase::kBackward);
  expect("jit(step)/jit(main)/jvp()/checkpoint/attention/dot", "attention/dot", Phase::kForward);
  expect("jit(step)/jit(main)/jvp()/checkpoint/rematted_computation/attention/dot", "attention/dot", Phase::kBackward);
  expect("jit(step)/jit(main)/vmap(jvp(a/b))/c", "a/b/c", Phase::kForward);
  expect("jit(step)/jit(main)/jit(silu)/mul", "silu/mul", Phase::kUnknown);
  expect("jit(step)/jit(main)/transpose(jvp(encoder/jit(relu)))/mul", "encoder/relu/mul", Phase::kBackward);
  expect("jit(step)/jit(main)/sgd/sub:", "sgd/sub", Phase::kUnknown);
  expect("jit(step)/jit(main)", "", Phase::kUnknown);
  expect("a(b/c", "a(b/c", Phase::kUnknown);
  expect("jvp(", "jvp(", Phase::kUnknown);
  expect("", "", Phase::kUnknown);
}

TEST(XProfNames, TensorFlow) {
  const auto expect = [](std::string_view text, std::string_view path, Phase phase) {
    ASSERT_TRUE(is_tensorflow_operation(text)) << text;
    const XProfName name = tensorflow_name(text);
    EXPECT_EQ(name.path, path) << text;
    EXPECT_EQ(name.phase, phase) << text;
  };
  expect("sequential/layer_0/Relu:_MklNativeFusedMatMul", "sequential/layer_0/Relu", Phase::kForward);
  expect("gradient_tape/sequential/head/MatMul/MatMul_1:MatMul", "sequential/head/MatMul/MatMul_1", Phase::kBackward);
  expect("Adam_1/sub_3:Sub", "Adam_1/sub_3", Phase::kOptimizer);
  expect("Adam/gradients/AddN:AddN", "Adam/AddN", Phase::kBackward);
  expect("StatefulPartitionedCall/SGD/sub:Sub", "StatefulPartitionedCall/SGD/sub", Phase::kOptimizer);
  expect("model/adam/mul:Mul", "model/adam/mul", Phase::kOptimizer);
  expect("model/layer/adam:Mul", "model/layer/adam", Phase::kForward);
  expect("update/x:ResourceApplyAdam", "update/x", Phase::kOptimizer);
  expect("Adaptive/sub:Sub", "Adaptive/sub", Phase::kForward);
  for (const std::string_view other : {"TfrtCpuExecutable::Execute", "EagerLocalExecute: __inference_step_720", "train",
                                       "Iterator::Prefetch::Generator", ":Mul", "a:", "a:b", "", "copy of a:B c"}) {
    EXPECT_FALSE(is_tensorflow_operation(other)) << other;
  }
}

// --- what the frameworks wrote ---

// The sums are those that TensorFlow 2.15's own classes of these messages (xplane_pb2, hlo_pb2) gave.
TEST(XProfFile, JaxWithTheNamesOfItsOperations) {
  const ReadEvents read = read_golden("xprof-jax.xplane.pb.gz");
  EXPECT_EQ(read.stats.format, EventFormat::kXProf);
  const Busy expected = {
      {"CPU:0 encoder/layer_0/dot_general forward", 37'816},
      {"CPU:0 encoder/layer_0/relu/max forward", 25'967},
      {"CPU:0 encoder/layer_1/dot_general forward", 48'040},
      {"CPU:0 head/dot_general forward", 13'911},
      {"CPU:0 mul", 3'324},
      {"CPU:0 sgd/sub", 24'125},
      {"CPU:0 encoder/layer_0/reduce_sum backward", 3'976},
      {"CPU:0 encoder/layer_0/select_n backward", 4'226},
      {"CPU:0 encoder/layer_0/transpose backward", 15'943},
      {"CPU:0 encoder/layer_1/dot_general backward", 99'418},
      {"CPU:0 encoder/layer_1/reduce_sum backward", 4'045},
      {"CPU:0 encoder/layer_1/select_n backward", 4'015},
      {"CPU:0 encoder/layer_1/transpose backward", 44'025},
      {"CPU:0 head/dot_general backward", 25'037},
      {"CPU:0 head/reduce_sum backward", 1'181},
      {"CPU:0 head/transpose backward", 11'647},
  };
  EXPECT_EQ(read.busy, expected);
  constexpr Nanoseconds kBegin = 1'795'869'631'591'852'295;  // the file's profile_start_time
  EXPECT_EQ(read.stats.first, kBegin + 514'851);
  EXPECT_EQ(read.stats.last, kBegin + 1'339'722);
}

// The Chrome trace of the same run does not say what JAX called the operations.
TEST(XProfFile, JaxChromeTraceHasTheSameTimes) {
  const ReadEvents read = read_golden("xprof-jax.trace.json.gz");
  EXPECT_EQ(read.stats.format, EventFormat::kXProf);
  EXPECT_EQ(read.busy.at("CPU:0 jit_step/dot.26"), 37'816);
  EXPECT_EQ(total(read.busy, "CPU:0"), 366'696);
  EXPECT_EQ(read.stats.last, 1'339'722);
}

TEST(XProfFile, TensorFlowsOperations) {
  const ReadEvents read = read_golden("xprof-tensorflow.xplane.pb.gz");
  EXPECT_EQ(read.busy.at("CPU:0 sequential/layer_0/Relu forward"), 122'121);
  EXPECT_EQ(read.busy.at("CPU:0 sequential/layer_1/MatMul/MatMul_1 backward"), 61'621);
  EXPECT_EQ(read.busy.at("CPU:0 sequential/head/BiasAdd/BiasAddGrad backward"), 3'165);
  EXPECT_EQ(total(read.busy, "CPU:0"), 985'879);
  EXPECT_EQ(read.stats.first, 73'839);
  EXPECT_EQ(read.stats.last, 7'544'613);
}

// The runtime's own calls are no work unless they are wanted; then the innermost runs.
TEST(XProfFile, FramesOfTheRuntime) {
  EventTraceOptions options;
  options.frames = true;
  const ReadEvents read = read_golden("xprof-jax.xplane.pb.gz", options);
  EXPECT_EQ(read.busy.at("CPU:0 head/dot_general forward"), 13'911);
  EXPECT_GT(read.busy.count("CPU:0 PjitFunction(step)/PjitFunction(step)/ParseArguments"), 0u);
  EXPECT_GT(total(read.busy, "CPU:0"), 366'696);
}

// --- GPUs and other devices, made up ---

std::string chrome(std::string_view entries) {
  return fmt::format(R"json({{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[
    {{"ph":"M","pid":1,"name":"process_name","args":{{"name":"/device:GPU:1"}}}},
    {{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{{"name":"XLA Modules"}}}},
    {{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{{"name":"XLA Ops"}}}},
    {{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{{"name":"Stream #13(Compute,MemcpyH2D)"}}}},
    {{"ph":"M","pid":1,"tid":4,"name":"thread_name","args":{{"name":"Stream #20(MemcpyD2H)"}}}},
    {{"ph":"M","pid":2,"name":"process_name","args":{{"name":"/host:CPU"}}}},
    {{"ph":"M","pid":2,"tid":9,"name":"thread_name","args":{{"name":"python"}}}},
    {{"ph":"M","pid":3,"name":"process_name","args":{{"name":"/device:CUSTOM:Megascale"}}}},
    {}]}})json",
                     entries);
}

// The module's 75 us and the operations' repeat what the streams say: 10 + 40 us of kernels, and copies of 7 and 5 us,
// the first at once with a kernel.
constexpr const char* kGpu = R"json(
    {"ph":"X","pid":1,"tid":1,"ts":0,"dur":75,"name":"jit_step(3)"},
    {"ph":"X","pid":1,"tid":2,"ts":0,"dur":10,"name":"fusion.1","args":{"hlo_op":"fusion.1"}},
    {"ph":"X","pid":1,"tid":2,"ts":20,"dur":40,"name":"dot.2","args":{"hlo_op":"dot.2"}},
    {"ph":"X","pid":1,"tid":3,"ts":0,"dur":10,"name":"void loop_fusion_1(float*)",
     "args":{"hlo_op":"fusion.1","hlo_module":"jit_step"}},
    {"ph":"X","pid":1,"tid":3,"ts":20,"dur":40,"name":"ampere_sgemm_128x64",
     "args":{"hlo_op":"dot.2","hlo_module":"jit_step","name":"jit(step)/jit(main)/transpose(jvp(head))/dot_general"}},
    {"ph":"X","pid":1,"tid":3,"ts":21,"dur":7,"name":"MemcpyH2D","args":{}},
    {"ph":"X","pid":1,"tid":4,"ts":70,"dur":5,"name":"MemcpyD2H","args":{"tf_op":"sequential/head/copy:_Recv"}},
    {"ph":"X","pid":2,"tid":9,"ts":0,"dur":80,"name":"$train.py:12 main"},
    {"ph":"X","pid":2,"tid":9,"ts":0,"dur":80,"name":"train","args":{"step_num":"4"}},
    {"ph":"X","pid":2,"tid":9,"ts":1,"dur":8,"name":"PjitFunction(step)"},
    {"ph":"X","pid":3,"tid":1,"ts":1,"dur":8,"name":"lost"})json";

TEST(XProfGpu, EachKernelCountsOnce) {
  const ReadEvents read = read_text(chrome(kGpu));
  EXPECT_EQ(read.busy, (Busy{{"GPU:1 jit_step/fusion.1", 10'000},
                             {"GPU:1 head/dot_general backward", 40'000},
                             {"GPU:1 MemcpyH2D", 7'000},
                             {"GPU:1 sequential/head/copy forward", 5'000}}));
  EXPECT_EQ(read.stats.untied_kernels, 1u);
  EXPECT_EQ(read.stats.first, 0);
  EXPECT_EQ(read.stats.last, 80'000);
}

TEST(XProfGpu, KernelsBelowTheirOperations) {
  EventTraceOptions options;
  options.kernel_names = true;
  const ReadEvents read = read_text(chrome(kGpu), options);
  EXPECT_EQ(read.busy.at("GPU:1 jit_step/fusion.1/loop_fusion_1"), 10'000);
  EXPECT_EQ(read.busy.at("GPU:1 head/dot_general/ampere_sgemm_128x64 backward"), 40'000);
  EXPECT_EQ(read.busy.at("GPU:1 MemcpyH2D"), 7'000);
}

TEST(XProfGpu, DevicesByAnotherName) {
  EventTraceOptions options;
  options.device_names = {{"GPU:1", "GPU:5"}};
  EXPECT_EQ(read_text(chrome(kGpu), options).busy.count("GPU:5 jit_step/fusion.1"), 1u);
}

// On a device without streams an operation of XLA may hold others: of the loop's 30 us the dot takes 20.
TEST(XProfGpu, OperationsNestWhereThereAreNoStreams) {
  const ReadEvents read = read_text(R"json({"metadata":{"highres-ticks":true},"traceEvents":[
    {"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},
    {"ph":"M","pid":3,"tid":1,"name":"thread_name","args":{"name":"XLA Modules"}},
    {"ph":"M","pid":3,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
    {"ph":"X","pid":3,"tid":1,"ts":0,"dur":99,"name":"jit_step"},
    {"ph":"X","pid":3,"tid":2,"ts":0,"dur":30,"name":"while.1",
     "args":{"hlo_op":"while.1","tf_op":"jit(step)/jit(main)/jvp(encoder)/while:"}},
    {"ph":"X","pid":3,"tid":2,"ts":5,"dur":20,"name":"dot.1",
     "args":{"hlo_op":"dot.1","tf_op":"jit(step)/jit(main)/jvp(encoder)/while/body/dot_general:"}}]})json");
  EXPECT_EQ(read.busy,
            (Busy{{"TPU:0 encoder/while forward", 10'000}, {"TPU:0 encoder/while/body/dot_general forward", 20'000}}));
}

// --- XSpace files, made up ---

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string text(int field, std::string_view value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + std::string(value);
}
std::string entry(int map, std::uint64_t key, const std::string& value) {
  return text(map, number(1, key) + text(2, value));
}

// A kernel of 40.5 us, 2 ms after the line's beginning at 1 s; its operation is stated with its name, by reference.
std::string space() {
  const std::string kernel = text(2, "sgemm") + text(5, number(1, 7) + number(7, 8));
  const std::string line = text(2, "Stream #7(Compute)") + number(3, 1'000'000'000) +
                           text(4, number(1, 1) + number(2, 2'000'000'000) + number(3, 40'500'000)) +
                           text(4, number(1, 1) + number(5, 12));
  const std::string gpu = text(2, "/device:GPU:0") + text(3, line) + entry(4, 1, kernel) +
                          entry(5, 7, text(2, "tf_op")) + entry(5, 8, text(2, "head/MatMul:MatMul"));
  const std::string environment = text(2, "Task Environment") + entry(5, 1, text(2, "profile_start_time")) +
                                  text(6, number(1, 1) + number(3, 1'700'000'000'000'000'000));
  return text(1, gpu) + text(1, environment);
}

TEST(XSpace, TimesCountFromTheProfilesBeginning) {
  const ReadEvents read = read_text(space());
  EXPECT_EQ(read.busy, (Busy{{"GPU:0 head/MatMul forward", 40'500}}));
  EXPECT_EQ(read.stats.first, 1'700'000'000'000'000'000 + 1'002'000'000);
  EXPECT_EQ(read.stats.last - read.stats.first, 40'500);
  ASSERT_EQ(read.stats.dropped.size(), 1u);
  EXPECT_THAT(read.stats.dropped[0].reason, HasSubstr("without times"));
  EXPECT_EQ(read.stats.dropped[0].count, 1u);
}

TEST(XSpace, CutOffOrChangedIsAnErrorOrReadable) {
  const std::string whole = space();
  for (std::size_t length = 1; length < whole.size(); ++length) {
    try {
      read_text(whole.substr(0, length));
    } catch (const InputError&) {
    }
    std::string changed = whole;
    changed[length] = static_cast<char>(changed[length] ^ 0x55);
    try {
      read_text(changed);
    } catch (const InputError&) {
    }
  }
  expect_input_error([&] { read_text(whole.substr(0, whole.size() - 20)); }, 0, 0, "damaged or cut off");
  expect_input_error(
      [] {
        read_text(
            std::string_view("\x7f"
                             "ELF\2\1\1\0\0\0",
                             10));
      },
      0, 0, "neither a Chrome trace nor");
}

}  // namespace
}  // namespace flyball
