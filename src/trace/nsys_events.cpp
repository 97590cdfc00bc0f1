// Each table is read by one statement, in which the columns that are missing are NULL. Launches are found by process
// and correlation, which are made one number, and names by the sweep, as those of PyTorch's traces are: a range of NVTX
// is a scope, and the launch within it gives the kernel its name.
#include "trace/nsys_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "database/database.h"
#include "trace/event_recorder.h"

namespace flyball {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr const char* kMendExport =
    "profile with nsys profile --trace=cuda,nvtx, then: nsys export --type sqlite REPORT.nsys-rep";

constexpr const char* kRuntimeTable = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kRangeTable = "NVTX_EVENTS";
constexpr const char* kNameTable = "StringIds";
constexpr const char* kStartTable = "TARGET_INFO_SESSION_START_TIME";
constexpr const char* kCudaDeviceTable = "TARGET_INFO_CUDA_DEVICE";

// What a GPU did. Of the columns with names, the first that is there is taken.
struct DeviceWork {
  const char* table;
  std::vector<const char*> name_columns;
  const char* name;  // where there is none
};
const DeviceWork kDeviceWork[] = {{"CUPTI_ACTIVITY_KIND_KERNEL", {"demangledName", "shortName"}, "kernel"},
                                  {"CUPTI_ACTIVITY_KIND_MEMCPY", {}, "Memcpy"},
                                  {"CUPTI_ACTIVITY_KIND_MEMSET", {}, "Memset"},
                                  {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {}, "CUDA graph"}};

// CUpti_ActivityMemcpyKind.
const std::map<std::int64_t, const char*> kCopyKinds = {
    {1, "Memcpy HtoD"}, {2, "Memcpy DtoH"}, {8, "Memcpy DtoD"}, {9, "Memcpy HtoH"}, {10, "Memcpy PtoP"}};

// Event types of NVTX_EVENTS.
constexpr std::int64_t kPushPopRange = 59;
constexpr std::int64_t kStartEndRange = 60;

// globalTid and globalPid: the thread in 24 bits, the process in the next 24, and the machine above.
std::int64_t process_in(std::int64_t global) { return global >> 24; }
std::int64_t pid_in(std::int64_t global) { return process_in(global) & 0xFFFFFF; }
std::int64_t thread_in(std::int64_t global) { return global & 0xFFFFFF; }

// PyTorch's emit_nvtx names a range "aten::addmm, seq = 12, op_id = 7, sizes = [[2, 3]]" (getNvtxStr in
// torch/csrc/profiler/util.cpp).
constexpr std::string_view kSequence = ", seq = ";
constexpr std::string_view kOperationMarks[] = {kSequence, ", op_id = ", ", sizes = "};
constexpr std::string_view kEvaluateFunction = "autograd::engine::evaluate_function: ";

// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel"
std::string_view without_version(std::string_view name) {
  const std::size_t at = name.rfind("_v");
  const bool has_version = at != std::string_view::npos && at + 2 < name.size() &&
                           name.find_first_not_of("0123456789", at + 2) == std::string_view::npos;
  return has_version ? name.substr(0, at) : name;
}

class NsysReader {
 public:
  NsysReader(const std::string& path, const EventTraceOptions& options, DeviceTable& devices, EventRecords& records)
      : path_(path),
        options_(options),
        devices_(devices),
        records_(records),
        stats_(records.stats),
        database_(path, DatabaseUse::kForeign) {}

  void read() {
    stats_.format = EventFormat::kNsys;
    stats_.file_bytes = std::filesystem::file_size(path_);
    has_names_ = !columns_of(kNameTable).empty();
    if (!has_names_) miss("no table StringIds: kernels, calls and most ranges have no names");
    read_start();
    read_gpus();
    bool any = false;
    for (const DeviceWork& work : kDeviceWork) {
      const std::set<std::string> columns = columns_of(work.table);
      if (!columns.empty() && columns.count("globalPid") == 0) one_process_ = true;
      any = any || !columns.empty();
    }
    if (one_process_) miss("no column globalPid: launches of several processes cannot be told apart");
    double done = 0.0;
    for (const DeviceWork& work : kDeviceWork) {
      read_device_work(work);
      if (options_.progress) options_.progress((done += 1.0) / 6.0);
    }
    const bool has_calls = read_calls();
    if (options_.progress) options_.progress(5.0 / 6.0);
    const bool has_ranges = read_ranges();
    if (!any && !has_calls && !has_ranges) {
      refuse("the database has no table of GPU work, CUDA calls or NVTX ranges", kMendExport);
    }
    finish();
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& mend) const {
    throw InputError({path_}, problem, mend);
  }
  void miss(std::string sentence) { stats_.missing.push_back(std::move(sentence)); }

  // Returns the columns of a table; none where it is missing. Views are refused: a view can loop forever, and nsys
  // makes none.
  std::set<std::string> columns_of(const std::string& table) {
    Statement there(database_, "SELECT type, rootpage FROM sqlite_master WHERE name=? AND type<>'index'");
    if (!there.bind(1, std::string_view(table)).next()) return {};
    if (there.text(0) != "table" || there.integer(1) <= 0) {
      refuse(table + " is no table but something that computes its rows", "export the report again");
    }
    std::set<std::string> columns;
    Statement names(database_, "SELECT name FROM pragma_table_info(?)");
    names.bind(1, std::string_view(table));
    while (names.next()) columns.insert(names.text(0));
    return columns;
  }

  // Returns the columns, without which nothing can be read.
  void require(const std::string& table, const std::set<std::string>& columns,
               std::initializer_list<const char*> wanted) const {
    for (const char* column : wanted) {
      if (columns.count(column) == 0) {
        refuse(fmt::format("table {} has no column {}", table, column),
               "export the report with another version of nsys");
      }
    }
  }

  // What stands in a statement for a column of `t`.
  std::string column(const std::string& table, const std::set<std::string>& columns, const char* name,
                     const char* consequence) {
    if (columns.count(name) > 0) return fmt::format("t.\"{}\"", name);
    if (consequence != nullptr) miss(fmt::format("no column {} in {}: {}", name, table, consequence));
    return "NULL";
  }

  // The rows of a statement "SELECT ... FROM `table` AS t"; `read` reads one.
  template <class Read>
  void each_row(const std::string& table, const std::string& sql, const Read& read) {
    Statement rows(database_, sql);
    while (rows.next()) {
      ++stats_.entries;
      try {
        read(rows);
      } catch (const InputError&) {
        throw;
      } catch (const DatabaseError&) {
        throw;
      } catch (const Error& error) {
        refuse(fmt::format("table {}, row {}: {}", table, stats_.entries, error.what()), "export the report again");
      }
    }
  }

  std::string named(const std::string& id) const {
    return has_names_ ? fmt::format(" LEFT JOIN {} AS n ON n.id = {}", kNameTable, id) : "";
  }
  [[nodiscard]] const char* name_column() const { return has_names_ ? "n.value" : "NULL"; }

  void read_start() {
    const std::set<std::string> columns = columns_of(kStartTable);
    if (columns.count("utcEpochNs") == 0) {
      return miss("no column utcEpochNs in TARGET_INFO_SESSION_START_TIME: times are since the session began");
    }
    each_row(kStartTable, fmt::format("SELECT utcEpochNs FROM {} LIMIT 1", kStartTable), [this](const Statement& row) {
      const Nanoseconds start = row.integer(0);
      if (start < 0 || start > kFarthestTime)
        refuse("the session's start (utcEpochNs) is no time since 1970", kMendExport);
      records_.base_time = start;
    });
  }

  // A process numbers the GPUs that it sees, from 0; nsys numbers all of them.
  void read_gpus() {
    const std::set<std::string> columns = columns_of(kCudaDeviceTable);
    for (const char* wanted : {"gpuId", "cudaId", "pid"}) {
      if (columns.count(wanted) == 0) {
        return miss(
            "no table TARGET_INFO_CUDA_DEVICE with gpuId, cudaId and pid: GPUs have the numbers that their "
            "processes gave them");
      }
    }
    each_row(kCudaDeviceTable, fmt::format("SELECT pid, cudaId, gpuId FROM {}", kCudaDeviceTable),
             [this](const Statement& row) {
               gpus_[{row.integer(0), row.integer(1)}] = row.integer(2);
             });
  }

  void read_device_work(const DeviceWork& work) {
    const std::string table = work.table;
    const std::set<std::string> columns = columns_of(table);
    if (columns.empty()) return;
    require(table, columns, {"start", "end", "deviceId"});
    const auto name_at = std::find_if(work.name_columns.begin(), work.name_columns.end(),
                                      [&](const char* name) { return columns.count(name) > 0; });
    const bool has_name = name_at != work.name_columns.end();
    if (!has_name && !work.name_columns.empty()) {
      miss(fmt::format("no column demangledName or shortName in {}: its work has no names", table));
    }
    const std::string sql =
        fmt::format("SELECT t.start, t.\"end\", t.deviceId, {}, {}, {}, {}, {} FROM {} AS t{}",
                    column(table, columns, "streamId", nullptr), column(table, columns, "globalPid", nullptr),
                    column(table, columns, "correlationId", "its work has no launches, and is named by itself"),
                    column(table, columns, "copyKind", nullptr), has_name ? name_column() : "NULL", table,
                    has_name ? named(fmt::format("t.\"{}\"", *name_at)) : "");
    each_row(table, sql, [&](const Statement& row) {
      EventRecord record;
      if (!read_times(row, record)) return;
      record.kind = RecordKind::kDevice;
      const std::int64_t process = row.integer_or_nothing(4).value_or(0);
      record.link = link_of(process_in(process), row.integer_or_nothing(5));
      const auto gpu = gpus_.find({pid_in(process), row.integer(2)});
      record.lane = lane_of(true, gpu == gpus_.end() ? row.integer(2) : gpu->second, process_in(process),
                            row.integer_or_nothing(3).value_or(0)) &
                    kLastLane;
      std::string_view name = work.name;
      if (const auto kind = kCopyKinds.find(row.integer_or_nothing(6).value_or(0)); kind != kCopyKinds.end()) {
        name = kind->second;
      }
      if (const auto own = row.text_or_nothing(7)) name = kernel_name(*own);
      record.name = records_.names.intern(name);
      add(record);
    });
  }

  bool read_calls() {
    const std::string table = kRuntimeTable;
    const std::set<std::string> columns = columns_of(table);
    if (columns.empty()) {
      miss("no table CUPTI_ACTIVITY_KIND_RUNTIME: GPU work has no launches, and is named by itself");
      return false;
    }
    require(table, columns, {"start", "end", "globalTid", "correlationId"});
    const bool has_name = columns.count("nameId") > 0;
    each_row(table,
             fmt::format("SELECT t.start, t.\"end\", t.globalTid, t.correlationId, {} FROM {} AS t{}",
                         has_name ? name_column() : "NULL", table, has_name ? named("t.nameId") : ""),
             [&](const Statement& row) {
               EventRecord record;
               if (!read_times(row, record)) return;
               const std::int64_t thread = row.integer(2);
               record.kind = RecordKind::kRuntime;
               record.link = link_of(process_in(thread), row.integer_or_nothing(3));
               records_.has_runtime = records_.has_runtime || record.link != kNoLink;
               record.lane = lane_of(false, process_in(thread), 0, thread_in(thread)) & kLastLane;
               record.name = records_.names.intern(without_version(row.text_or_nothing(4).value_or("CUDA call")));
               add(record);
             });
    return true;
  }

  bool read_ranges() {
    const std::string table = kRangeTable;
    const std::set<std::string> columns = columns_of(table);
    if (columns.empty()) {
      miss("no table NVTX_EVENTS: GPU work is named by its kernels alone (profile with --trace=cuda,nvtx)");
      return false;
    }
    require(table, columns, {"start", "end", "globalTid", "eventType"});
    const bool has_id = columns.count("textId") > 0;
    each_row(table,
             fmt::format("SELECT t.start, t.\"end\", t.globalTid, t.eventType, {}, {} FROM {} AS t{}",
                         column(table, columns, "text", nullptr), has_id ? name_column() : "NULL", table,
                         has_id ? named("t.textId") : ""),
             [&](const Statement& row) { take_range(row); });
    return true;
  }

  void take_range(const Statement& row) {
    const std::int64_t type = row.integer(3);
    if (type == kStartEndRange) ++start_end_ranges_;
    if (type != kPushPopRange) return;
    EventRecord record;
    const bool open = !row.integer_or_nothing(1);
    if (open ? !read_begin(row, record) : !read_times(row, record)) return;
    std::string_view name = row.text_or_nothing(4).value_or("");
    if (name.empty()) name = row.text_or_nothing(5).value_or("(unnamed)");
    record.kind = RecordKind::kScope;
    if (name.starts_with("ProfilerStep")) return cover(record.begin, open ? record.begin : record.end);
    read_pytorch_name(name, record);
    if (name.starts_with("Optimizer.")) {
      record.kind = RecordKind::kScope;
      record.phase = Phase::kOptimizer;
    }
    const std::int64_t thread = row.integer(2);
    record.lane = lane_of(false, process_in(thread), 0, thread_in(thread)) & kLastLane;
    record.name = records_.names.intern(name);
    if (open) {
      open_ranges_.push_back(records_.records.size());
      record.end = record.begin;
    }
    add(record);
  }

  // Takes PyTorch's marks off a name, and makes the record the operation that they tell of.
  static void read_pytorch_name(std::string_view& name, EventRecord& record) {
    std::size_t end = name.size();
    for (const std::string_view mark : kOperationMarks) end = std::min(end, name.find(mark));
    if (end == name.size()) return;
    record.kind = RecordKind::kOperation;
    if (const std::size_t at = name.find(kSequence); at != std::string_view::npos) {
      const std::string_view digits = name.substr(at + kSequence.size());
      record.link = parse_integer(digits.substr(0, digits.find(','))).value_or(kNoLink);
    }
    if (record.link < 0) record.link = kNoLink;
    name = name.substr(0, end);
    const bool evaluates = name.starts_with(kEvaluateFunction);
    if (evaluates) name.remove_prefix(kEvaluateFunction.size());
    record.tied = evaluates || is_autograd(name);
    if (record.tied || record.link != kNoLink) record.phase = record.tied ? Phase::kBackward : Phase::kForward;
  }

  bool read_begin(const Statement& row, EventRecord& record) {
    const std::optional<std::int64_t> begin = row.integer_or_nothing(0);
    if (begin && *begin <= kFarthestTime && *begin >= -kFarthestTime) {
      record.begin = *begin;
      return true;
    }
    ++dropped_["no start, or one beyond 73 years"];
    return false;
  }

  bool read_times(const Statement& row, EventRecord& record) {
    if (!read_begin(row, record)) return false;
    const std::optional<std::int64_t> end = row.integer_or_nothing(1);
    const char* reason = !end                   ? "no end"
                         : *end < record.begin  ? "an end before its start"
                         : *end > kFarthestTime ? "an end beyond 73 years"
                                                : nullptr;
    if (reason != nullptr) {
      ++dropped_[reason];
      return false;
    }
    record.end = *end;
    return true;
  }

  // One number for a launch. Those of one time have different lowest bits, by which the sweep finds them, also where
  // several processes count their launches at the same pace.
  std::int64_t link_of(std::int64_t process, std::optional<std::int64_t> correlation) {
    if (!correlation || *correlation <= 0 || *correlation > std::numeric_limits<std::uint32_t>::max()) return kNoLink;
    constexpr std::int64_t kApart = 25'013;
    const auto number =
        static_cast<std::int64_t>(one_process_ ? 0 : processes_.try_emplace(process, processes_.size()).first->second);
    if (number > kMostProcesses) refuse("the report has more than a million processes", "profile fewer at once");
    return number << 40 | (*correlation + number * kApart);
  }

  std::uint32_t lane_of(bool on_gpu, std::int64_t process, std::int64_t owner, std::int64_t thread) {
    const auto [at, added] = lanes_.try_emplace({on_gpu, process, owner, thread}, 0);
    if (!added) return at->second;
    if (records_.lanes.size() > kLastLane) refuse("the report has more than 2^26 threads", "profile fewer at once");
    at->second = static_cast<std::uint32_t>(records_.lanes.size());
    EventLane lane;
    lane.process = records_.names.intern(fmt::to_string(process));
    lane.thread = records_.names.intern(fmt::to_string(thread));
    lane.on_gpu = on_gpu;
    records_.lanes.push_back(lane);
    return at->second;
  }

  void add(const EventRecord& record) {
    records_.records.push_back(record);
    cover(record.begin, record.end);
    if (record.kind != RecordKind::kScope) ++stats_.executions;
  }

  void cover(Nanoseconds begin, Nanoseconds end) {
    stats_.first = records_.has_time ? std::min(stats_.first, begin) : begin;
    stats_.last = records_.has_time ? std::max(stats_.last, end) : end;
    records_.has_time = true;
  }

  void finish() {
    for (const std::size_t at : open_ranges_) records_.records[at].end = stats_.last;
    stats_.unfinished = open_ranges_.size();
    if (start_end_ranges_ > 0) {
      miss(fmt::format("{} that no thread pushes and pops (nvtxRangeStart) name nothing",
                       counted(static_cast<long>(start_end_ranges_), "range")));
    }
    std::map<std::string, DeviceId> names;
    for (EventLane& lane : records_.lanes) {
      const std::string name = lane.on_gpu ? fmt::format("GPU:{}", records_.names[lane.process]) : "CPU:0";
      const auto given = options_.device_names.find(name);
      names[name] = lane.device = devices_.intern(given == options_.device_names.end() ? name : given->second);
    }
    for (const auto& [name, device] : names) stats_.devices.push_back({name, device});
    for (const auto& [reason, count] : dropped_) stats_.dropped.push_back({reason, count});
  }

  static constexpr std::int64_t kMostProcesses = 1 << 20;

  const std::string& path_;
  const EventTraceOptions& options_;
  DeviceTable& devices_;
  EventRecords& records_;
  EventTraceStats& stats_;
  Database database_;
  bool has_names_ = false;
  bool one_process_ = false;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> gpus_;  // by process and its number there
  std::map<std::int64_t, std::size_t> processes_;
  std::map<std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>, std::uint32_t> lanes_;
  std::vector<std::size_t> open_ranges_;  // records of ranges that had not ended when profiling did
  std::uint64_t start_end_ranges_ = 0;
  std::map<std::string, std::uint64_t> dropped_;
};

}  // namespace

bool is_nsys(const std::string& path) {
  if (path.ends_with(".nsys-rep") || path.ends_with(".qdrep")) {
    throw InputError({path}, "this is a report of Nsight Systems, which only nsys can read",
                     "export it: nsys export --type sqlite " + path);
  }
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  char first[kMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  return std::memcmp(first, kMagic.data(), kMagic.size()) == 0;
}

void read_nsys(const std::string& path, const EventTraceOptions& options, DeviceTable& devices, EventRecords& records) {
  try {
    NsysReader(path, options, devices, records).read();
  } catch (const DatabaseError& error) {
    throw InputError({path}, fmt::format("the database cannot be read ({})", error.what()),
                     "export the report again: nsys export --type sqlite REPORT.nsys-rep");
  }
}

}  // namespace flyball
