// Any database as an export of Nsight Systems: events in order of time, or an Error. The input is SQL that makes the
// database and, behind a byte 0, bytes of the file to change: their place in two bytes, then the new byte.
#include <sqlite3.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "database/database.h"
#include "event_order.h"
#include "trace/event_trace.h"

namespace {

constexpr int kMostSteps = 20'000;      // of SQLite's machine, for the SQL of one input
constexpr int kLongestValue = 1 << 17;  // bytes

// The path of the one file that the inputs are written to.
const std::string& export_path() {
  static const std::string path =
      std::filesystem::temp_directory_path() / ("flyball-nsys-fuzz-" + std::to_string(getpid()) + ".sqlite");
  static const int registered = std::atexit([] {
    std::error_code code;
    std::filesystem::remove(path, code);
  });
  static_cast<void>(registered);
  return path;
}

// Inputs may not reach other files (ATTACH, VACUUM INTO), nor change how the library works.
int allow(void*, int action, const char*, const char*, const char*, const char*) {
  return action == SQLITE_ATTACH || action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

void make_export(const std::string& sql) {
  std::filesystem::remove(export_path());
  std::filesystem::remove(export_path() + "-journal");
  flyball::Database database(export_path());
  database.execute(
      "PRAGMA page_size=512; PRAGMA max_page_count=4000; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; BEGIN");
  sqlite3_limit(database.handle(), SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_set_authorizer(database.handle(), allow, nullptr);
  sqlite3_progress_handler(
      database.handle(), kMostSteps, [](void*) { return 1; }, nullptr);
  sqlite3_exec(database.handle(), sql.c_str(), nullptr, nullptr, nullptr);  // what was made before an error, stays
  sqlite3_progress_handler(database.handle(), 0, nullptr, nullptr);
  if (database.in_transaction()) database.execute("COMMIT");
}

void change_bytes(std::string_view changes) {
  const std::uintmax_t size = std::filesystem::file_size(export_path());
  std::fstream file(export_path(), std::ios::binary | std::ios::in | std::ios::out);
  for (; size > 0 && changes.size() >= 3; changes.remove_prefix(3)) {
    const auto place =
        static_cast<std::size_t>(static_cast<std::uint8_t>(changes[0]) << 8 | static_cast<std::uint8_t>(changes[1]));
    file.seekp(static_cast<std::streamoff>(place % size));
    file.put(changes[2]);
  }
}

void read_export() {
  flyball::OperationTable operations;
  flyball::DeviceTable devices;
  flyball::EventTraceOptions options;
  options.kernel_names = true;
  const auto trace = flyball::open_event_trace(export_path(), options, operations, devices);
  flyball::require_order(*trace, operations, devices);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  try {
    make_export(std::string(input.substr(0, end)));
    if (end != std::string_view::npos) change_bytes(input.substr(end + 1));
    read_export();
  } catch (const flyball::Error&) {
  }
  return 0;
}
