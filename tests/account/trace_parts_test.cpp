// A large file is read in parts by several threads; what is read is what one thread reads, to the last number.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "account/event_trace.h"
#include "account/list_cuts.h"
#include "base/error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;

// Everything that a trace says, or the error that it is refused with.
std::string account_of(const std::string& path, const EventTraceOptions& options) {
  OperationTable operations;
  DeviceTable devices;
  std::string text;
  try {
    const auto trace = open_event_trace(path, options, operations, devices);
    TraceEvent event;
    while (trace->next(event)) {
      text += fmt::format("{} {} {} {}\n", event.begin, event.end, event.device, event.operation);
    }
    const EventTraceStats& stats = trace->stats();
    text += fmt::format("{} {} bytes, {} entries, {} executions, {} {} {} untied, {} at {}, from {} to {}\n",
                        name_of(stats.format), stats.file_bytes, stats.entries, stats.executions, stats.untied_kernels,
                        stats.untied_backward, stats.unfinished, stats.truncated, stats.truncated_at, stats.first,
                        stats.last);
    for (const DroppedEvents& dropped : stats.dropped) text += fmt::format("{} {}\n", dropped.count, dropped.reason);
  } catch (const InputError& error) {
    text += error.what();
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto id = static_cast<OperationId>(i);
    text += fmt::format("{} {}\n", operations.name(id), static_cast<int>(operations.phase(id)));
  }
  for (const OperationEdge& edge : operations.edges()) {
    text += fmt::format("{} {} {}\n", edge.from, edge.to, static_cast<int>(edge.kind));
  }
  for (std::size_t i = 0; i < devices.size(); ++i) text += devices.name(static_cast<DeviceId>(i)) + "\n";
  return text;
}

class TraceInParts : public ::testing::Test {
 protected:
  // Both readings of a file with this text, which must be one; returns it.
  std::string expect_same(std::string_view text, EventTraceOptions options = {}) {
    const std::string path = folder_ / "trace.json";
    std::ofstream(path, std::ios::binary) << text;
    options.threads = 1;
    std::string one = account_of(path, options);
    for (options.threads = 2; options.threads <= 3; ++options.threads) {
      EXPECT_EQ(find_list_cuts(path, options.threads).size(), options.threads - 1);
      EXPECT_TRUE(account_of(path, options) == one) << options.threads << " threads, " << one.substr(0, 200);
    }
    return one;
  }

  [[nodiscard]] std::string path(std::string_view text) const {
    const std::string name = folder_ / "trace.json";
    std::ofstream(name, std::ios::binary) << text;
    return name;
  }

 private:
  testing::TempFolder folder_;
};

std::string joined(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text += (text.empty() ? "" : ", \n") + entry;
  return text;
}

// Each operation has two streams and names of its own in one part of the file; many begin at the same time.
std::vector<std::string> timeline(int count) {
  std::mt19937 random(5);
  std::vector<std::string> entries;
  for (int i = 0; i < count; ++i) {
    entries.push_back(fmt::format(
        R"({{"ph": "X", "cat": "Op", "name": "MatMul", "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
        R"("args": {{"name": "model/layer_{}/{}:0", "op": "{}", "input0": "model/layer_{}/x", "input1": "^no"}}}})",
        random() % 3, i / 4000, random() % 1000, random() % 9, i / 1000, random() % 40,
        random() % 8 == 0 ? "ApplyAdam" : "MatMul", random() % 40));
  }
  return entries;
}

constexpr std::string_view kProcess =
    R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0 Compute"}})";

TEST_F(TraceInParts, TensorFlow) {
  std::vector<std::string> entries = timeline(24'000);
  entries.insert(entries.begin(), std::string(kProcess));
  entries.emplace_back(R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:1 Compute"}})");
  entries.emplace_back(R"({"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "/device:CPU:0 Compute"}})");
  const std::string read = expect_same("{\"traceEvents\": [" + joined(entries) + "]}");
  EXPECT_THAT(read, HasSubstr("tensorflow"));
  EXPECT_THAT(read, HasSubstr("24003 entries, 24000 executions"));
  EXPECT_THAT(read, HasSubstr("GPU:1")) << "the last name of a process counts, wherever it stands";
  EXPECT_THAT(read, HasSubstr(" outside every device")) << "a process that no entry names";

  EventTraceOptions little;
  little.memory_bytes = 1;
  EXPECT_EQ(expect_same("{\"traceEvents\": [" + joined(entries) + "]}", little), read);
}

// Launches and forward calls stand in one part, kernels and backward calls in another.
TEST_F(TraceInParts, Kineto) {
  std::vector<std::string> entries;
  constexpr int kSteps = 12'000;
  for (int i = 0; i < kSteps; ++i) {
    entries.push_back(fmt::format(
        R"({{"ph":"X","cat":"cpu_op","name":"aten::mm{}","pid":7,"tid":7,"ts":{},"dur":20.5,"args":{{"External id":{},)"
        R"("Sequence number":{}}}}})",
        i % 90, i * 100, i + 1, i));
    entries.push_back(
        fmt::format(R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":{},"dur":4,)"
                    R"("args":{{"correlation":{}}}}})",
                    i * 100 + 2, i));
  }
  for (int i = 0; i < kSteps; ++i) {
    entries.push_back(
        fmt::format(R"({{"ph":"X","cat":"kernel","name":"void gemm<{}>","pid":0,"tid":{},"ts":{}.125,"dur":30,)"
                    R"("args":{{"correlation":{},"device":{}}}}})",
                    i % 3, i % 4, i * 100 + 9, i % 50 == 0 ? i + 1'000'000 : i, i % 2));
  }
  std::shuffle(entries.begin() + kSteps, entries.end(), std::mt19937(3));
  for (const std::string_view tail : {R"(], "baseTimeNanoseconds": 123456789000})", "]}", "", ",", "]} and more"}) {
    const std::string read = expect_same(R"({"schemaVersion": 1, "baseTimeNanoseconds": 42000, "traceEvents": [)" +
                                         joined(entries) + std::string(tail));
    EXPECT_THAT(read, HasSubstr("36000 executions"));
  }
}

TEST_F(TraceInParts, BeginsAndEndsOfOnePlainList) {
  std::vector<std::string> entries;
  for (int i = 0; i < 60'000; ++i) {
    const bool inner = i % 4 == 1 || i % 4 == 2;
    entries.push_back(fmt::format(R"({{"ph":"{}","name":"op{}","pid":1,"tid":"main{}","ts":{},"note":"{}"}})",
                                  i % 4 < 2 ? 'B' : 'E', (i / 4 * 2 + (inner ? 1 : 0)) % 700, i / 30'000, i / 2,
                                  i % 20 == 0 ? "\xC3\xA9" : ""));
    if (i % 1000 == 0) entries.push_back("17");
    if (i % 1000 == 1) entries.push_back(R"({"ph":"X","name":"timeless","pid":1,"tid":2,"dur":1})");
  }
  const std::string text = "[" + joined(entries) + "]";
  const std::string read = expect_same(text);
  EXPECT_THAT(read, HasSubstr("60 an entry that is no object"));
  EXPECT_THAT(read, HasSubstr("60 no time (ts)"));

  // Cut off, in the last part and so that the parts are others.
  EXPECT_THAT(expect_same(text.substr(0, text.size() - 77)), HasSubstr("true at"));
  // A name with foreign bytes and control characters costs no other name anything.
  for (const std::size_t place : {text.size() / 5, text.size() / 2, text.size() - 1000}) {
    std::string damaged = text;
    damaged.replace(damaged.find("B\",\"name\":\"op", place) + 11, 2, "\xFF\x01\xC3");
    EXPECT_THAT(expect_same(damaged), HasSubstr("? ?"));
  }
  // What is no JSON is refused with its place, in whichever part it stands.
  for (const std::size_t place : {text.size() / 5, text.size() / 2, text.size() - 1000}) {
    std::string damaged = text;
    damaged.replace(damaged.find("\"pid\"", place), 5, "pid'''");
    EXPECT_THAT(expect_same(damaged), HasSubstr("is no JSON"));
  }
}

// The list ends early, and a large list of something else that looks like it follows.
TEST_F(TraceInParts, ListThatEndsBeforeTheCut) {
  const std::string entries = joined(timeline(9'000));
  const std::string read = expect_same("{\"traceEvents\": [" + std::string(kProcess) + ", " + entries +
                                       "], \"old\": [" + entries + "], \"baseTimeNanoseconds\": 5000}");
  EXPECT_THAT(read, HasSubstr("9000 executions"));
  EXPECT_THAT(expect_same("{\"old\": [" + entries + "], \"traceEvents\": [" + entries + "]}"),
              HasSubstr("9000 executions"));
  EXPECT_THAT(expect_same("{\"old\": [" + entries + entries + "]}"), HasSubstr("there is no list"));
}

// Every place that looks like one between two events lies inside of one.
TEST_F(TraceInParts, CutInsideOfAnEntry) {
  std::vector<std::string> entries;
  for (int i = 0; i < 1000; ++i) {
    std::string nested;
    for (int k = 0; k < 100; ++k) nested += R"({"ph":"X","name":"inside","ts":1,"dur":2},)";
    entries.push_back(fmt::format(R"({{"ph":"X","name":"op","pid":1,"tid":1,"ts":{},"dur":2,"args":{{"list":[{}3]}}}})",
                                  3 * i, nested));
  }
  EXPECT_THAT(expect_same("[" + joined(entries) + "]"), HasSubstr("1000 entries, 1000 executions"));
}

TEST_F(TraceInParts, CutsStandBeforeEntries) {
  const std::string text = "[" + joined(timeline(30'000)) + "]";
  const std::string file = path(text);
  const std::vector<std::uint64_t> cuts = find_list_cuts(file, 4);
  ASSERT_EQ(cuts.size(), 3u);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    EXPECT_EQ(text.substr(cuts[i] - 2, 10), "}}, \n{\"ph\"");
    EXPECT_NEAR(static_cast<double>(cuts[i]), static_cast<double>(text.size()) * static_cast<double>(i + 1) / 4.0,
                400.0);
  }
  EXPECT_TRUE(find_list_cuts(file, 1).empty());
  EXPECT_EQ(find_list_cuts(file, 1000).size() + 1, text.size() >> 20) << "no part of less than a megabyte";
  // Nested objects are no events, and gzip cannot be read from its middle.
  std::string nested = "[";
  while (nested.size() < (3u << 20)) nested += R"({"a":1},{"b":2}, )";
  EXPECT_TRUE(find_list_cuts(path(nested), 3).empty());
  EXPECT_TRUE(find_list_cuts(path("\x1f\x8b" + text), 3).empty());
  EXPECT_TRUE(find_list_cuts(path(text.substr(0, 1u << 20)), 3).empty());
  EXPECT_TRUE(find_list_cuts("/dev/null", 3).empty());
}

}  // namespace
}  // namespace flyball
