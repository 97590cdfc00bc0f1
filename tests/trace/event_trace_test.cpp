// Event traces: what the frameworks really wrote (tests/trace/files), made-up ones whose answers follow from their
// numbers, and what is broken in every way.
#include "trace/event_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "support/expect_error.h"
#include "support/read_events.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;

// --- PyTorch ---

// All numbers of synthetic-kineto-gpu.json, in us:
//   thread 42: module 95-155, linear 100-140, addmm 110-130 in it (launch 11 at 115); optimizer 400-450, add_ 410-440
//   thread 77: evaluate 200-260 and its function 205-255, one name; mm 210-250 in them (launch 12 at 220);
//              a launch 13 outside any operation at 270-275, which launches nothing
//   GPU 0: kernel of 11: 50; of 12: 80; one of a launch that is missing (99), whose External id says mm: 20
//   GPU 1: a copy without launch: named after itself
TEST(Kineto, KernelsBackwardAndModulesAreTied) {
  const ReadEvents read = read_golden("synthetic-kineto-gpu.json");
  const Busy expected = {
      {"CPU:0 Encoder_0/aten::linear forward", 20'000},
      {"CPU:0 Encoder_0/aten::linear/aten::addmm forward", 20'000},
      {"CPU:0 Encoder_0/AddmmBackward0 backward", 20'000},
      {"CPU:0 Encoder_0/AddmmBackward0/aten::mm backward", 40'000},
      {"CPU:0 Optimizer.step#SGD.step/aten::add_ optimizer", 30'000},
      {"CPU:0 cudaLaunchKernel", 5'000},
      {"GPU:0 Encoder_0/aten::linear/aten::addmm forward", 50'000},
      {"GPU:0 Encoder_0/AddmmBackward0/aten::mm backward", 100'000},
      {"GPU:1 Memcpy HtoD", 5'500},
  };
  EXPECT_EQ(read.busy, expected);
  EXPECT_EQ(read.stats.format, EventFormat::kKineto);
  EXPECT_EQ(read.stats.untied_kernels, 1u);  // the copy
  EXPECT_EQ(read.stats.untied_backward, 0u);
  EXPECT_FALSE(read.stats.truncated);
  // The profiler's own span, 80 us to 480 us, in which the step and all that ran lie.
  EXPECT_EQ(read.stats.first, 1'700'000'000'000'080'000);
  EXPECT_EQ(read.stats.last, 1'700'000'000'000'480'000);
  EXPECT_EQ(read.events.front().begin, 1'700'000'000'000'090'000);
  EXPECT_TRUE(read.has_edge("Encoder_0/aten::linear/aten::addmm", "Encoder_0/AddmmBackward0", EdgeKind::kBackward));
  EXPECT_TRUE(read.has_edge("Encoder_0/aten::linear", "Encoder_0/aten::linear/aten::addmm", EdgeKind::kOrder));
}

TEST(Kineto, KernelsAndFramesOnRequest) {
  EventTraceOptions options;
  options.kernel_names = true;
  options.frames = true;
  options.device_names = {{"GPU:0", "GPU:4"}};
  const ReadEvents read = read_golden("synthetic-kineto-gpu.json", options);
  EXPECT_EQ(read.busy.at("GPU:4 Encoder_0/aten::linear/aten::addmm/gemm_128x64 forward"), 50'000);
  // 95-100 and 140-155 of the module are outside its operation.
  EXPECT_EQ(read.busy.at("CPU:0 Encoder_0 forward"), 20'000);
  EXPECT_EQ(read.busy.at("CPU:0 Optimizer.step#SGD.step optimizer"), 20'000);
}

TEST(Kineto, KernelThatBeginsBeforeItsLaunchWaits) {
  const ReadEvents read = read_text(R"([
    {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5,"args":{"device":0,"correlation":1}},
    {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":11,"dur":9,"args":{"External id":1}},
    {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":12,"dur":1,
     "args":{"correlation":1}}])");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 aten::mm", 9'000}, {"GPU:0 aten::mm", 5'000}}));
  EXPECT_EQ(read.stats.untied_kernels, 0u);
}

TEST(Kineto, RealStackTrace) {
  const ReadEvents read = read_golden("pytorch-stack.json.gz");
  EXPECT_EQ(read.stats.format, EventFormat::kKineto);
  EXPECT_EQ(read.stats.entries, 1362u);
  EXPECT_EQ(read.stats.executions, 776u);  // its operations
  EXPECT_TRUE(read.stats.dropped.empty());
  EXPECT_EQ(read.stats.untied_backward, 0u);
  const std::string query = "Encoder_0/Sequential_0/Layer_1/Attention_0/Linear_";
  EXPECT_GT(total(read.busy, query), 0);
  // Every linear of the model has its backward in its own module: 2 layers of 4, and the head.
  std::map<std::string, int> backward;
  for (OperationId id = 0; id < read.operations.size(); ++id) {
    const std::string& name = read.operations.name(id);
    const std::size_t at = name.find("/AddmmBackward0");
    if (read.operations.phase(id) == Phase::kBackward && at != std::string::npos) ++backward[name.substr(0, at)];
  }
  EXPECT_EQ(backward.size(), 9u);
  for (const auto& [module, count] : backward) EXPECT_THAT(module, HasSubstr("Linear_"));
  EXPECT_GT(total(read.busy, "Optimizer.step#SGD.step/aten::add_ optimizer"), 0);
}

// What the operations cover is the union of the top ones: nesting neither adds nor loses time. From the file, with
// Python: the sum of those cpu_op spans that lie in no other is 12,244.600 us.
TEST(Kineto, NestingConservesTime) {
  const ReadEvents read = read_golden("pytorch-plain.json.gz");
  Nanoseconds sum = 0;
  for (const auto& [name, time] : read.busy) sum += time;
  EXPECT_EQ(sum, 12'244'600);
  // The profiler's own span, "PyTorch Profiler (0)": from 4423698059385.804 us for 28445.628 us.
  EXPECT_EQ(read.stats.first, 1'790'857'026'000'000'000 + 4'423'698'059'385'804);
  EXPECT_EQ(read.stats.last, read.stats.first + 28'445'628);
}

TEST(Kineto, TorchScriptsModuleHierarchy) {
  const ReadEvents read = read_golden("pytorch-modules.json.gz");
  EXPECT_GT(total(read.busy, "/layer/0/attention/key/aten::linear"), 0);
  EXPECT_GT(total(read.busy, "/layer/0/attention/key/TBackward0"), 0);
}

// Block_0 (0-50) has Conv2d_5 and Conv2d_7, Block_1 (50-100) Conv2d_9 and Conv2d_11: within each, they are 0 and 1. The
// call at 45 is of Conv2d_5 again. The backward of sequence 3 is that of the second block's second one.
TEST(Kineto, SiblingsAreNumberedWithinTheirParent) {
  const ReadEvents read = read_text(R"({"schemaVersion":1,"traceEvents":[
    {"ph":"X","cat":"python_function","name":"nn.Module: Block_0","pid":1,"tid":1,"ts":0,"dur":50},
    {"ph":"X","cat":"python_function","name":"nn.Module: Conv2d_5","pid":1,"tid":1,"ts":0,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"conv","pid":1,"tid":1,"ts":1,"dur":2,"args":{}},
    {"ph":"X","cat":"python_function","name":"nn.Module: Conv2d_7","pid":1,"tid":1,"ts":20,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"conv","pid":1,"tid":1,"ts":21,"dur":3,"args":{}},
    {"ph":"X","cat":"python_function","name":"nn.Module: Conv2d_5","pid":1,"tid":1,"ts":40,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"conv","pid":1,"tid":1,"ts":45,"dur":4,"args":{}},
    {"ph":"X","cat":"python_function","name":"nn.Module: Block_1","pid":1,"tid":1,"ts":50,"dur":50},
    {"ph":"X","cat":"python_function","name":"nn.Module: Conv2d_9","pid":1,"tid":1,"ts":50,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"conv","pid":1,"tid":1,"ts":51,"dur":5,"args":{}},
    {"ph":"X","cat":"python_function","name":"nn.Module: Conv2d_11","pid":1,"tid":1,"ts":70,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"conv","pid":1,"tid":1,"ts":71,"dur":6,"args":{"Sequence number":3}},
    {"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: B","pid":1,"tid":2,"ts":110,"dur":7,
     "args":{"Sequence number":3,"Fwd thread id":1}}]})");
  const Busy expected = {{"CPU:0 Block_0/Conv2d_0/conv forward", 6'000},  // 2 and 4 us
                         {"CPU:0 Block_0/Conv2d_1/conv forward", 3'000},
                         {"CPU:0 Block_1/Conv2d_0/conv forward", 5'000},
                         {"CPU:0 Block_1/Conv2d_1/conv forward", 6'000},
                         {"CPU:0 Block_1/Conv2d_1/B backward", 7'000}};
  EXPECT_EQ(read.busy, expected);
  EXPECT_FALSE(read.stats.without_modules);
}

// Thread 1: the model (0-100) below an annotation of the program. In layer 0, `q` is called below another annotation,
// and then `tied`, which is the head's. Thread 2 runs the backward of `q`'s mm, in which layer 0's `k` is computed once
// more (as by checkpointing), and, without a model around it, `k` by its whole path. Python's frames say the same
// again.
TEST(Kineto, ModulesThatStateTheirPaths) {
  const ReadEvents read = read_text(R"({"schemaVersion":1,"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"train","pid":1,"tid":1,"ts":0,"dur":120},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: ","pid":1,"tid":1,"ts":0,"dur":100},
    {"ph":"X","cat":"python_function","name":"nn.Module: Model_0","pid":1,"tid":1,"ts":1,"dur":98},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: layers.0","pid":1,"tid":1,"ts":10,"dur":50},
    {"ph":"X","cat":"user_annotation","name":"attend","pid":1,"tid":1,"ts":11,"dur":20},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: layers.0.q","pid":1,"tid":1,"ts":12,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":1,"ts":13,"dur":2,"args":{"Sequence number":5}},
    {"ph":"X","cat":"cpu_op","name":"softmax","pid":1,"tid":1,"ts":25,"dur":3,"args":{}},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: head.tied","pid":1,"tid":1,"ts":40,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":1,"ts":41,"dur":4,"args":{}},
    {"ph":"X","cat":"cpu_op","name":"sum","pid":1,"tid":1,"ts":70,"dur":5,"args":{}},
    {"ph":"X","cat":"cpu_op","name":"loss","pid":1,"tid":1,"ts":105,"dur":6,"args":{}},
    {"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: B","pid":1,"tid":2,"ts":200,"dur":50,
     "args":{"Sequence number":5,"Fwd thread id":1}},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: layers.0.k","pid":1,"tid":2,"ts":210,"dur":20},
    {"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":2,"ts":211,"dur":7,"args":{}},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: layers.0.k","pid":1,"tid":2,"ts":300,"dur":20},
    {"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":2,"ts":301,"dur":8,"args":{}}]})");
  const Busy expected = {{"CPU:0 train/layers/0/attend/q/mm forward", 2'000},
                         {"CPU:0 train/layers/0/attend/softmax forward", 3'000},
                         {"CPU:0 train/head/tied/mm forward", 4'000},
                         {"CPU:0 train/sum forward", 5'000},
                         {"CPU:0 train/loss", 6'000},
                         {"CPU:0 train/layers/0/attend/q/B backward", 30'000},  // 50 less the module in it
                         {"CPU:0 train/layers/0/k/mm backward", 7'000},
                         {"CPU:0 layers/0/k/mm forward", 8'000}};
  EXPECT_EQ(read.busy, expected);
  EXPECT_FALSE(read.stats.without_modules);
}

TEST(Kineto, PathsOfModulesMayBeAnything) {
  std::string deep = "a";
  for (int i = 0; i < 3000; ++i) deep += ".a";
  const ReadEvents read = read_text(R"({"schemaVersion":1,"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"flyball.module: ...b..","pid":1,"tid":1,"ts":0,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":1,"dur":2,"args":{}},
    {"ph":"X","cat":"user_annotation","name":"flyball.module: )" +
                                    deep + R"(","pid":1,"tid":2,"ts":0,"dur":10},
    {"ph":"X","cat":"cpu_op","name":"y","pid":1,"tid":2,"ts":1,"dur":3,"args":{}}]})");
  EXPECT_EQ(read.busy.at("CPU:0 b/x forward"), 2'000);
  EXPECT_EQ(read.stats.too_deep, 1u);  // y, below a thousand
}

TEST(Kineto, SaysWhetherModulesAreNamed) {
  EXPECT_TRUE(read_golden("pytorch-plain.json.gz").stats.without_modules);
  EXPECT_FALSE(read_golden("pytorch-stack.json.gz").stats.without_modules);
  EXPECT_FALSE(read_golden("pytorch-modules.json.gz").stats.without_modules);
  EXPECT_FALSE(read_golden("pytorch-legacy.json.gz").stats.without_modules);  // which no Kineto wrote
}

TEST(Chrome, OlderProfilersModulesStateTheirPaths) {
  const ReadEvents read = read_text(R"([
    {"ph":"X","name":"flyball.module: encoder.0","pid":1,"tid":1,"ts":0,"dur":10},
    {"ph":"X","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2}])");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 encoder/0/aten::mm forward", 2'000}}));
}

TEST(Kineto, OlderProfilerIsAChromeTrace) {
  const ReadEvents read = read_golden("pytorch-legacy.json.gz");
  EXPECT_EQ(read.stats.format, EventFormat::kChrome);
  EXPECT_EQ(read.stats.executions, 787u);
  EXPECT_GT(total(read.busy, "CPU:0 loss/aten::linear/aten::addmm"), 0);
  EXPECT_GT(total(read.busy, "Optimizer.step#SGD.step/aten::add_ optimizer"), 0);
}

// --- TensorFlow ---

TEST(TensorFlow, RealTimeline) {
  const ReadEvents read = read_golden("tensorflow-timeline.json.gz");
  EXPECT_EQ(read.stats.format, EventFormat::kTensorFlow);
  EXPECT_EQ(read.stats.executions, 189u);
  // From the file: this operation ran once, for 104 us, and its input fed two others.
  EXPECT_EQ(read.busy.at("CPU:0 bert/encoder/layer_0/attention/query/BiasAdd forward"), 104'000);
  EXPECT_EQ(read.busy.at("CPU:0 bert/encoder/layer_1/output/MatMul_grad/MatMul_1 backward"), 16'000);
  EXPECT_TRUE(read.has_edge("bert/encoder/layer_0/attention/query/BiasAdd", "bert/encoder/layer_0/attention/MatMul",
                            EdgeKind::kData));
  EXPECT_GT(total(read.busy, "optimizer"), 0);
}

TEST(TensorFlow, EachKernelCountsOnce) {
  constexpr const char* kText = R"({"traceEvents": [
    {"name":"process_name","ph":"M","pid":1,"args":{"name":"/job:a/replica:0/task:0/device:GPU:1 Compute"}},
    {"name":"process_name","ph":"M","pid":2,"args":{"name":"/job:a/replica:0/task:0/device:GPU:1/stream:13 Compute"}},
    {"ph":"X","cat":"Op","name":"MatMul","pid":1,"tid":0,"ts":1,"dur":2,"args":{"name":"a/MatMul","op":"MatMul"}},
    {"ph":"X","cat":"Op","name":"MatMul","pid":2,"tid":0,"ts":5,"dur":7,
     "args":{"name":"a/MatMul:MatMul","op":"MatMul"}},
    {"ph":"X","cat":"Op","name":"MatMul","pid":3,"tid":0,"ts":5,"dur":7,"args":{"name":"a/MatMul","op":"MatMul"}},
    {"ph":"X","cat":"Op","name":"x","pid":9,"tid":0,"ts":5,"dur":7,"args":{"name":"lost"}},
    {"name":"process_name","ph":"M","pid":3,"args":{"name":"/job:a/replica:0/task:0/device:GPU:1/stream:all Compute"}}
  ]})";
  const ReadEvents read = read_text(kText);
  EXPECT_EQ(read.busy, (Busy{{"GPU:1 a/MatMul forward", 7'000}}));
  EXPECT_EQ(read.dropped("outside every device"), 3u);
}

// --- Chrome traces ---

TEST(Chrome, BeginsAndEndsNest) {
  const ReadEvents read = read_text(R"({"displayTimeUnit":"ns","traceEvents":[
    {"ph":"M","name":"process_name","pid":1,"args":{"name":"GPU 2"}},
    {"ph":"B","name":"outer","pid":1,"tid":1,"ts":0},
    {"ph":"B","name":"inner","pid":1,"tid":1,"ts":2.5},
    {"ph":"E","pid":1,"tid":1,"ts":4},
    {"ph":"E","name":"outer","pid":1,"tid":1,"ts":10},
    {"ph":"E","name":"outer","pid":1,"tid":1,"ts":11},
    {"ph":"B","name":"open","pid":1,"tid":1,"ts":12},
    {"ph":"X","name":"last","pid":1,"tid":2,"ts":13,"dur":7},
    {"ph":"C","name":"counter","pid":1,"ts":3},{"ph":"i","name":"instant","pid":1,"ts":3}]})");
  EXPECT_EQ(read.busy,
            (Busy{{"GPU:2 outer", 8'500}, {"GPU:2 outer/inner", 1'500}, {"GPU:2 open", 8'000}, {"GPU:2 last", 7'000}}));
  EXPECT_EQ(read.dropped("without a beginning"), 1u);
  EXPECT_EQ(read.stats.unfinished, 1u);
}

// 50 us is the time of an E, whose B stands at 10.
TEST(Chrome, TheProfileEndsWithTheLastEntry) {
  const ReadEvents read = read_text(R"([{"ph":"B","name":"a","pid":1,"tid":1,"ts":10},
    {"ph":"X","name":"b","pid":1,"tid":2,"ts":3,"dur":9}, {"ph":"E","name":"a","pid":1,"tid":1,"ts":50}])");
  EXPECT_EQ(read.stats.first, 3'000);
  EXPECT_EQ(read.stats.last, 50'000);
  EXPECT_EQ(read.stats.executions, 2u);
}

TEST(Chrome, DevicesByThreadOrGivenName) {
  constexpr const char* kText = R"([
    {"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{"name":"cuda:3"}},
    {"ph":"X","name":"a","pid":1,"tid":5,"ts":0,"dur":1},
    {"ph":"X","name":"b","pid":1,"tid":6,"ts":0,"dur":1},])";
  EventTraceOptions options;
  EXPECT_EQ(read_text(kText, options).busy, (Busy{{"CPU:0 a", 1'000}, {"CPU:0 b", 1'000}}));
  options.chrome_device = ChromeDevice::kThread;
  EXPECT_EQ(read_text(kText, options).busy, (Busy{{"GPU:3 a", 1'000}, {"CPU:0 b", 1'000}}));
  options.device_names = {{"6", "DRAM:1"}};
  EXPECT_EQ(read_text(kText, options).busy, (Busy{{"GPU:3 a", 1'000}, {"DRAM:1 b", 1'000}}));
}

TEST(Chrome, ZeroLengthAndOverlap) {
  const ReadEvents read = read_text(R"([
    {"ph":"X","name":"zero","pid":1,"tid":1,"ts":5,"dur":0},
    {"ph":"X","name":"a","pid":1,"tid":2,"ts":0,"dur":10},
    {"ph":"X","name":"over","pid":1,"tid":2,"ts":8,"dur":4},
    {"ph":"X","name":"over","pid":1,"tid":2,"ts":12,"dur":1}])");
  // `over` reaches beyond `a`, in which it begins: it runs to its own end.
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 zero", 0}, {"CPU:0 a", 8'000}, {"CPU:0 a/over", 4'000}, {"CPU:0 over", 1'000}}));
  EXPECT_EQ(read.events.size(), 4u);
}

// Times with three decimals of a microsecond overlap by one of them: a to c follow each other, and x lies in outer with
// y, which seems to end after both. "over" above is as long in a as beyond it.
TEST(Chrome, OverlapByRoundingIsNoNesting) {
  const ReadEvents read = read_text(R"([
    {"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":10.001},
    {"ph":"X","name":"b","pid":1,"tid":1,"ts":10,"dur":5.001},
    {"ph":"X","name":"c","pid":1,"tid":1,"ts":15,"dur":0.5},
    {"ph":"X","name":"outer","pid":1,"tid":2,"ts":0,"dur":20},
    {"ph":"X","name":"x","pid":1,"tid":2,"ts":10,"dur":10.001},
    {"ph":"X","name":"y","pid":1,"tid":2,"ts":12,"dur":8.002}])");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 a", 10'000},
                             {"CPU:0 b", 5'000},
                             {"CPU:0 c", 500},
                             {"CPU:0 outer", 10'000},
                             {"CPU:0 outer/x", 2'000},
                             {"CPU:0 outer/x/y", 8'002}}));
}

// Each call is 1 us longer at both ends than the one in it; the 1,000th, and the 501 below, take 2 * 501 + 1 us.
TEST(Chrome, NamesEndAtAThousandLevels) {
  constexpr int kLevels = 1501;
  std::string text = "[";
  for (int i = 0; i < kLevels; ++i) {
    text += fmt::format(R"({}{{"ph":"X","name":"n{}","pid":1,"tid":1,"ts":{},"dur":{}}})", i > 0 ? "," : "", i, i,
                        2 * (kLevels - i) - 1);
  }
  const ReadEvents read = read_text(text + "]");
  EXPECT_EQ(read.operations.size(), 1000u);
  EXPECT_EQ(read.stats.too_deep, 501u);
  EXPECT_EQ(total(read.busy, "/n998"), 2'000 + 1'003'000);
  EXPECT_EQ(total(read.busy, "/n999"), 1'003'000);
  EXPECT_EQ(total(read.busy, "CPU:0"), (2 * kLevels - 1) * 1000);
}

TEST(Chrome, TimesAreExact) {
  // Beyond 2^53 ns a double of microseconds would have lost the last digits.
  const ReadEvents read =
      read_text(R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":1795280724059922.525,"dur":0.0015}])");
  EXPECT_EQ(read.events.front().begin, 1'795'280'724'059'922'525);
  EXPECT_EQ(read.events.front().end - read.events.front().begin, 2);  // 1.5 ns, rounded
  EXPECT_EQ(read_text(R"([{"ph":"X","name":"a","ts":"12","dur":1e3}])").events.front().end, 1'012'000);
}

// --- what is broken ---

TEST(BrokenTrace, BadEventsAreCountedByReason) {
  const ReadEvents read = read_text(
      "\xEF\xBB\xBF[\r\n"
      R"(
    {"ph":"X","name":"good","ts":1,"dur":1,"unknown":{"a":[{"b":1},{"c":"},{\""}]}},
    {"ph":"X","name":"negative","ts":1,"dur":-1},
    {"ph":"X","name":"nan","ts":NaN,"dur":1},
    {"ph":"X","name":"none","dur":1},
    {"ph":"X","name":"text","ts":"soon","dur":1},
    {"ph":"X","name":"long","ts":1,"dur":1e300},
    {"ph":"X","name":"far","ts":4e15,"dur":1},
    {"ph":"X","name":"twice","ts":1,"ts":7,"dur":1},
    null, 7, {}, {"ph":"X"}
  ])");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 good", 1'000}, {"CPU:0 twice", 1'000}}));
  EXPECT_EQ(read.events.back().begin, 7'000);  // the last of two values
  EXPECT_EQ(read.dropped("negative duration"), 1u);
  EXPECT_EQ(read.dropped("no time"), 5u);  // NaN, none, a word, 4e15 us, the empty one
  EXPECT_EQ(read.dropped("no duration"), 1u);
  EXPECT_EQ(read.dropped("no object"), 2u);
}

TEST(BrokenTrace, EscapesAndForeignBytes) {
  const ReadEvents read = read_text(
      "[{\"ph\":\"X\",\"name\":\"a\\u00e9\\\"\\ud83d\\ude00\\n\",\"ts\":1,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"b\xff\x01\",\"ts\":2,\"dur\":1}]");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 a\xC3\xA9\"\xF0\x9F\x98\x80\n", 1'000}, {"CPU:0 b? ", 1'000}}));
}

// Wherever the file ends, every entry before is read and the end is told.
TEST(BrokenTrace, CutAnywhere) {
  const std::string text =
      R"({"otherData": {"a": [1]}, "traceEvents": [{"ph":"X","name":"a","ts":1,"dur":1,"args":{}},)"
      R"( {"ph":"X","name":"b","ts":2,"dur":1,"args":{"x":[1,2]}}], "traceName": "t"})";
  const std::size_t list = text.find("[{") + 1;
  const std::size_t first = text.find(", {\"ph\"");
  const std::size_t second = text.find("], \"traceName");
  for (std::size_t length = list; length <= text.size(); ++length) {
    const ReadEvents read = read_text(text.substr(0, length));
    const std::size_t whole = length < first ? 0 : length < second ? 1 : 2;
    EXPECT_EQ(read.events.size(), whole) << text.substr(0, length);
    EXPECT_EQ(read.stats.truncated, length <= second) << text.substr(0, length);
    if (read.stats.truncated) EXPECT_LE(read.stats.truncated_at, length);
  }
}

TEST(BrokenTrace, SaysWhatAndWhere) {
  const auto action = [](const char* text) { return [text] { static_cast<void>(read_text(text)); }; };
  expect_input_error(action(""), 0, 0, "trace.json: the file is empty");
  expect_input_error(action("time,power\n1,2\n"), 0, 0, "no JSON object or list");
  expect_input_error(action("{\"a\": 1}"), 0, 0, "no list \"traceEvents\"");
  expect_input_error(action(R"([{"ph":"X","name":"a","ts":1,"dur":1}, {"ph" "X"}, {"ph":"X"}])"), 0, 0, "byte 39");
  OperationTable operations;
  DeviceTable devices;
  EXPECT_THROW(static_cast<void>(open_event_trace("/nowhere/trace.json", {}, operations, devices)), SystemError);
}

std::string gzip(const std::string& text) {
  std::string out(text.size() + 1024, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

// Many events whose names and order are drawn by lot, of which the same text in other orders says the same.
std::vector<std::string> many_entries(int count) {
  std::mt19937 random(7);
  std::vector<std::string> entries;
  for (int i = 0; i < count; ++i) {
    entries.push_back(
        fmt::format("{{\"ph\":\"X\",\"name\":\"op{}\",\"pid\":1,\"tid\":{},\"ts\":{}.25,\"dur\":{},\"args\":{{\"note\":"
                    "\"}},{{\\\"\"}}}}",
                    random() % 50, random() % 4, i * 3, random() % 9));
  }
  return entries;
}

std::string as_list(const std::vector<std::string>& entries) {
  std::string text = "[";
  for (const std::string& entry : entries) text += (text.size() > 1 ? ",\n" : "\n") + entry;
  return text + "]";
}

TEST(LargeTrace, OrderOfTheFileDoesNotMatter) {
  std::vector<std::string> entries = many_entries(40'000);  // 3.5 MB: several blocks
  const ReadEvents sorted = read_text(as_list(entries));
  std::shuffle(entries.begin(), entries.end(), std::mt19937(3));
  const ReadEvents shuffled = read_text(as_list(entries));
  EXPECT_EQ(sorted.stats.executions, 40'000u);
  EXPECT_EQ(shuffled.busy, sorted.busy);
}

// Stretches in order, an odd number of them and more than are merged, which all begin together and overlap.
TEST(LargeTrace, ThreadsOneAfterTheOther) {
  const std::vector<std::string> entries = many_entries(9'000);
  const ReadEvents sorted = read_text(as_list(entries));
  for (const std::size_t stretches : {2u, 5u, 40u}) {
    std::vector<std::string> order;
    for (std::size_t first = 0; first < stretches; ++first) {
      for (std::size_t i = first; i < entries.size(); i += stretches) order.push_back(entries[i]);
    }
    const ReadEvents read = read_text(as_list(order));
    EXPECT_EQ(read.busy, sorted.busy);
    ASSERT_EQ(read.events.size(), sorted.events.size());
    for (std::size_t i = 0; i < read.events.size(); ++i) EXPECT_EQ(read.events[i].begin, sorted.events[i].begin);
  }
}

TEST(LargeTrace, GzipInMembersAndCutOff) {
  const testing::TempFolder folder;
  const std::string text = as_list(many_entries(20'000));
  const std::size_t half = text.size() / 2;
  const std::string packed = gzip(text.substr(0, half)) + gzip(text.substr(half));
  const auto write = [&folder](const std::string& name, std::string_view bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return folder / name;
  };
  const auto read = [](const std::string& path) {
    ReadEvents result;
    const auto trace = open_event_trace(path, {}, result.operations, result.devices);
    drain(*trace, result);
    return result;
  };
  const ReadEvents plain = read_text(text);
  const std::string whole = write("whole.json.gz", packed);
  EXPECT_EQ(read(whole).busy, plain.busy);
  const ReadEvents cut = read(write("cut.json.gz", std::string_view(packed).substr(0, packed.size() / 2)));
  EXPECT_TRUE(cut.stats.truncated);
  EXPECT_GT(cut.stats.executions, 8'000u);
  EXPECT_LT(cut.stats.executions, 12'000u);
  std::string damaged = packed;
  damaged[damaged.size() / 4] = static_cast<char>(~damaged[damaged.size() / 4]);
  const std::string path = write("damaged.json.gz", damaged);
  EXPECT_THROW(static_cast<void>(read(path)), InputError);
}

// One operation lasts as long as the trace, so that nothing could go out before its end was it not cut.
TEST(LargeTrace, LongOperationIsCutIntoPieces) {
  std::string text = R"([{"ph":"X","name":"long","pid":1,"tid":99,"ts":0,"dur":300000})";
  for (int i = 0; i < 150'000; ++i) {
    text += fmt::format(",{{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":{},\"dur\":1}}", 2 * i);
  }
  const ReadEvents read = read_text(text + "]");
  EXPECT_EQ(read.busy, (Busy{{"CPU:0 long", 300'000'000}, {"CPU:0 a", 150'000'000}}));
}

TEST(LargeTrace, CanBeReadAgainWithAnotherShift) {
  ReadEvents first;
  const auto trace = open_event_text("t", as_list(many_entries(5'000)), {}, first.operations, first.devices);
  drain(*trace, first);
  trace->rewind(1'000);
  std::vector<TraceEvent> again;
  TraceEvent event;
  while (trace->next(event)) again.push_back(event);
  ASSERT_EQ(again.size(), first.events.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].begin, first.events[i].begin + 1'000);
    EXPECT_EQ(again[i].operation, first.events[i].operation);
  }
  EXPECT_EQ(trace->stats().first, first.stats.first + 1'000);
}

}  // namespace
}  // namespace flyball
