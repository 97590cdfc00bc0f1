// Exports of Nsight Systems: one that tests/trace/files/write_nsys_export.py made, whose times are in its head, and
// others that lack parts, or are made to do harm.
#include "trace/nsys_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "database/database.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kExport = FLYBALL_SOURCE_DIR "/tests/trace/files/nsys-export.sqlite";

struct ReadExport {
  std::map<std::string, Nanoseconds> busy;  // "GPU:0 encoder/MatMul forward" -> nanoseconds
  Nanoseconds first = 0;
  EventTraceStats stats;
};

ReadExport read_export(const std::string& path, const EventTraceOptions& options = {}) {
  OperationTable operations;
  DeviceTable devices;
  const std::unique_ptr<EventTrace> trace = open_event_trace(path, options, operations, devices);
  ReadExport read;
  TraceEvent event;
  while (trace->next(event)) {
    std::string name = devices.name(event.device) + " " + operations.name(event.operation);
    if (const auto phase = name_of(operations.phase(event.operation)); !phase.empty()) name += " " + std::string(phase);
    read.busy[name] += event.end - event.begin;
  }
  read.stats = trace->stats();
  read.first = read.stats.first;
  return read;
}

// A copy of the export on which statements were run.
class NsysExport : public ::testing::Test {
 protected:
  std::string changed(const char* sql) {
    const std::string path = folder_ / "changed.sqlite";
    std::filesystem::copy_file(kExport, path, std::filesystem::copy_options::overwrite_existing);
    Database(path).execute(sql);
    return path;
  }
  std::string made(const char* sql) {
    const std::string path = folder_ / "made.sqlite";
    std::filesystem::remove(path);
    Database(path).execute(sql);
    return path;
  }

  testing::TempFolder folder_;
};

// Kernels have the ranges around their launch for a name; the backward stands in the scope of its forward, which has
// the same sequence number. The host works in PyTorch's operations, and in calls of CUDA that are in none.
TEST_F(NsysExport, NamesWorkByTheRangesAroundItsLaunch) {
  const ReadExport read = read_export(kExport);
  EXPECT_EQ(read.stats.format, EventFormat::kNsys);
  EXPECT_THAT(read.busy,
              ElementsAre(Pair("CPU:0 iteration/forward/AddmmBackward0 backward", 6 * kMillisecond),
                          Pair("CPU:0 iteration/forward/aten::addmm forward", 6 * kMillisecond),
                          Pair("CPU:0 iteration/forward/cudaMemcpyAsync", 1 * kMillisecond),
                          Pair("GPU:3 Memset", 1 * kMillisecond), Pair("GPU:3 iteration/forward", 2 * kMillisecond),
                          Pair("GPU:3 iteration/forward/AddmmBackward0 backward", 20 * kMillisecond),
                          Pair("GPU:3 iteration/forward/aten::addmm forward", 10 * kMillisecond)));
  EXPECT_EQ(read.first, 1'700'000'000 * kSecond);
  EXPECT_EQ(read.stats.last - read.first, 100 * kMillisecond);
  EXPECT_EQ(read.stats.untied_kernels, 1u);  // the memset
  EXPECT_EQ(read.stats.entries, 5u + 3 + 4 + 2);
  EXPECT_THAT(read.stats.missing, IsEmpty());
}

TEST_F(NsysExport, GivesKernelsNamesOfTheirOwnAndDevicesOthers) {
  EventTraceOptions options;
  options.device_names["GPU:3"] = "GPU:7";
  options.kernel_names = true;
  const ReadExport read = read_export(kExport, options);
  EXPECT_THAT(read.busy, Contains(Pair("GPU:7 iteration/forward/aten::addmm/gemm forward", 10 * kMillisecond)));
  EXPECT_THAT(read.busy, Contains(Pair("GPU:7 iteration/forward/Memcpy HtoD", 2 * kMillisecond)));
}

// Two processes may number their launches alike.
TEST_F(NsysExport, KeepsProcessesApart) {
  const std::string path = changed(
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start, end, 0, globalTid + (1 << 24), correlationId, nameId, 0, "
      "NULL "
      "FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId = 1;"
      "INSERT INTO NVTX_EVENTS(start, end, eventType, text, globalTid) SELECT 0, 100000000, 59, 'other', globalTid + "
      "(1 << 24) FROM NVTX_EVENTS WHERE text = 'iteration';"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end + 5000000, 0, 1, 7, 1, globalPid + (1 << 24), 4, 3, "
      "NULL "
      "FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 1");
  const ReadExport read = read_export(path);
  EXPECT_THAT(read.busy, Contains(Pair("GPU:0 other", 15 * kMillisecond)));  // the table says nothing of its GPU
  EXPECT_THAT(read.busy, Contains(Pair("GPU:3 iteration/forward/aten::addmm forward", 10 * kMillisecond)));
}

TEST_F(NsysExport, SaysWhatItLacks) {
  const ReadExport unranged = read_export(changed("DROP TABLE NVTX_EVENTS; DROP TABLE TARGET_INFO_CUDA_DEVICE"));
  EXPECT_THAT(unranged.busy, Contains(Pair("GPU:0 gemm", 30 * kMillisecond)));
  EXPECT_THAT(unranged.stats.missing, Contains(HasSubstr("no table NVTX_EVENTS")));
  EXPECT_THAT(unranged.stats.missing, Contains(HasSubstr("no table TARGET_INFO_CUDA_DEVICE")));
  const ReadExport timeless =
      read_export(changed("DROP TABLE TARGET_INFO_SESSION_START_TIME; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME"));
  EXPECT_EQ(timeless.first, 0);
  EXPECT_EQ(timeless.stats.untied_kernels, 4u);
  EXPECT_THAT(timeless.stats.missing, Contains(HasSubstr("times are since the session began")));
  EXPECT_THAT(timeless.stats.missing, Contains(HasSubstr("no table CUPTI_ACTIVITY_KIND_RUNTIME")));
  const ReadExport nameless = read_export(changed("DROP TABLE StringIds"));
  EXPECT_THAT(nameless.busy, Contains(Pair("GPU:3 iteration/forward/aten::addmm forward", 10 * kMillisecond)));
  EXPECT_THAT(nameless.stats.missing, Contains(HasSubstr("no table StringIds")));
}

// A range that was open when profiling ended lasts until the last end, 100 ms, so that the call at 20 ms is within it.
TEST_F(NsysExport, EndsOpenRangesWithTheTrace) {
  const ReadExport read = read_export(changed("UPDATE NVTX_EVENTS SET end = NULL WHERE text = 'forward'"));
  EXPECT_THAT(read.busy, Contains(Pair("GPU:3 iteration/forward", 2 * kMillisecond)));
  EXPECT_EQ(read.stats.unfinished, 1u);
}

TEST_F(NsysExport, CountsWhatItCannotRead) {
  const ReadExport read =
      read_export(changed("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = start - 1;"
                          "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET start = 9000000000000000000;"
                          "UPDATE NVTX_EVENTS SET eventType = 60 WHERE text = 'backward'"));
  ASSERT_EQ(read.stats.dropped.size(), 2u);
  EXPECT_EQ(read.stats.dropped[0].reason, "an end before its start");
  EXPECT_EQ(read.stats.dropped[1].reason, "no start, or one beyond 73 years");
  EXPECT_THAT(read.stats.missing, Contains(HasSubstr("1 range that no thread pushes and pops")));
}

TEST_F(NsysExport, RefusesWhatIsNone) {
  const auto expect = [](const std::string& path, const std::string& words) {
    expect_input_error([&] { read_export(path); }, 0, 0, words);
  };
  expect(made("CREATE TABLE a (b)"), "no table of GPU work, CUDA calls or NVTX ranges");
  expect(made("CREATE TABLE NVTX_EVENTS (start, globalTid, eventType)"), "table NVTX_EVENTS has no column end");
  expect(changed("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 'first'"),
         "table CUPTI_ACTIVITY_KIND_KERNEL, row 3: column deviceId holds text, not a whole number");
  expect(changed("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = -1"), "no time since 1970");
  expect(folder_.file("r.nsys-rep", "x"), "only nsys can read");
  expect(folder_.file("cut.sqlite", std::string("SQLite format 3\0", 16) + std::string(500, 'x')), "cannot be read");
}

// A view in a table's place could go on forever, and a virtual table could be anything.
TEST_F(NsysExport, RunsNothingThatTheFileDefines) {
  const std::string path = changed(
      "DROP TABLE NVTX_EVENTS;"
      "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n) "
      "SELECT start, start AS end, 1 AS globalTid, 59 AS eventType FROM n");
  expect_input_error([&] { read_export(path); }, 0, 0, "NVTX_EVENTS is no table but something that computes its rows");
}

TEST_F(NsysExport, RefusesATextOfMegabytes) {
  const std::string path = changed("UPDATE NVTX_EVENTS SET text = printf('%2000000c', 'x') WHERE text = 'forward'");
  expect_input_error([&] { read_export(path); }, 0, 0, "too big");
}

}  // namespace
}  // namespace flyball
