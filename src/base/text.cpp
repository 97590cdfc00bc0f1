// Numbers are read by std::from_chars, which knows no locale and takes no trailing text. A CSV row is a list of views
// into the text, with the column of each field for errors. The path of a file that is being written is kept in an
// atomic pointer, so that a signal handler can remove it.
#include "base/text.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/partial_file.h"

namespace flyball {
namespace {

std::atomic<const char*> partial_path = nullptr;
static_assert(decltype(partial_path)::is_always_lock_free);

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  text = trim(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string_view trim(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::vector<std::string_view> split_at(char separator, std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SystemError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw SystemError(fmt::format("cannot read {}: it is a folder", path.string()));
  }
  const auto check_size = [&](std::uintmax_t bytes) {
    if (bytes <= max_bytes) return;
    throw InputError({path.string()}, fmt::format("the file is larger than {} MiB", max_bytes >> 20),
                     "check that this is the right file; inputs of this kind are far smaller");
  };
  // A regular file is refused unread; pipes have no size and are counted as they come.
  if (std::filesystem::is_regular_file(path, code)) check_size(std::filesystem::file_size(path, code));
  std::string text;
  std::vector<char> block(1u << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    check_size(text.size());
  }
  if (file.bad()) throw SystemError(fmt::format("reading {} failed: {}", path.string(), std::strerror(errno)));
  return text;
}

const char* partial_file() noexcept { return partial_path; }

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  write_file_by(path, [text](std::ostream& file) { file.write(text.data(), std::ssize(text)); });
}

void write_file_by(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write) {
  std::error_code code;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), code);
  if (code) throw SystemError(fmt::format("cannot make folder {}: {}", path.parent_path().string(), code.message()));
  const auto write_to = [&](const std::filesystem::path& target) {
    std::ofstream file(target, std::ios::binary | std::ios::trunc);
    try {
      if (file) write(file);
      file.flush();
      if (file) return;
      throw SystemError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
    } catch (...) {
      if (target != path) std::filesystem::remove(target, code);
      throw;
    }
  };
  // Only a plain file of the caller's own is replaced. A device, a pipe, a link, or a file that has further links is
  // written in place, and so stays what it is.
  struct stat there {};
  const bool is_there = ::lstat(path.c_str(), &there) == 0;
  if (is_there && (!S_ISREG(there.st_mode) || there.st_nlink > 1 || there.st_uid != ::geteuid())) {
    return write_to(path);
  }
  const std::filesystem::path partial = path.string() + fmt::format(".partial.{}", ::getpid());
  struct Announced {
    explicit Announced(const char* file) { partial_path = file; }
    ~Announced() { partial_path = nullptr; }
  };
  const Announced announced(partial.c_str());
  write_to(partial);
  if (is_there) ::chmod(partial.c_str(), there.st_mode & 07777);
  std::filesystem::rename(partial, path, code);
  if (code) {
    const std::string reason = code.message();
    std::filesystem::remove(partial, code);
    throw SystemError(fmt::format("cannot write {}: {}", path.string(), reason));
  }
}

std::optional<double> parse_number(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<long> parse_integer(std::string_view text) { return parse_whole<long>(text); }

std::optional<double> parse_bytes(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"B", 1.0},      {"kB", 1e3},     {"MB", 1e6},
                                                            {"GB", 1e9},     {"TB", 1e12},    {"KiB", 0x1p10},
                                                            {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  text = trim(text);
  const std::size_t unit_at = text.find_last_of("0123456789.");
  if (unit_at == std::string_view::npos) return std::nullopt;
  const auto value = parse_number(text.substr(0, unit_at + 1));
  const std::string_view unit = trim(text.substr(unit_at + 1));
  for (const auto& [name, bytes] : kUnits) {
    if (value && unit == name) return *value * bytes;
  }
  return std::nullopt;
}

std::optional<double> parse_duration_seconds(std::string_view text) {
  text = trim(text);
  const std::size_t unit_at = text.find_last_of("0123456789.");
  if (unit_at == std::string_view::npos) return std::nullopt;
  const std::string_view unit = trim(text.substr(unit_at + 1));
  const auto value = parse_number(text.substr(0, unit_at + 1));
  if (!value) return std::nullopt;
  if (unit.empty() || unit == "s") return value;
  if (unit == "ms") return *value / 1e3;
  if (unit == "us") return *value / 1e6;
  if (unit == "ns") return *value / 1e9;
  return std::nullopt;
}

CsvReader::CsvReader(std::string source, std::string_view text, const std::vector<std::string>& required,
                     StandIn stand_in)
    : source_(std::move(source)), rest_(text) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  std::string wanted;
  for (const std::string& name : required) wanted += (wanted.empty() ? "" : ",") + name;
  std::vector<Field> fields;
  if (!read_line(fields)) {
    throw InputError({source_}, "the file has no header and no rows", "the first line must be " + wanted);
  }
  for (const Field& field : fields) {
    if (has_column(field.text)) {
      throw InputError({source_, line_, field.column},
                       fmt::format("column '{}' stands twice in the header", field.text), "name every column once");
    }
    header_.emplace_back(field.text);
  }
  for (const std::string& name : required) {
    if (has_column(name) || (name == stand_in.missing && has_column(stand_in.instead))) continue;
    throw InputError({source_, line_, 1}, fmt::format("the header has no column '{}'", name),
                     "the first line must hold the columns " + wanted);
  }
}

bool CsvReader::has_column(std::string_view name) const {
  return std::find(header_.begin(), header_.end(), name) != header_.end();
}

namespace {

// Where the search for the comma behind a field begins: behind its closing quote, where quotes stand around it.
std::size_t end_of_quoted(std::string_view line, std::size_t begin) {
  const std::size_t open = line.find_first_not_of(" \t", begin);
  if (open == std::string_view::npos || line[open] != '"') return begin;
  const std::size_t close = line.find('"', open + 1);
  return close == std::string_view::npos ? begin : close;
}

}  // namespace

bool CsvReader::read_line(std::vector<Field>& fields) {
  while (!rest_.empty()) {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++line_;
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    fields.clear();
    std::size_t begin = 0;
    while (true) {
      const std::size_t comma = line.find(',', end_of_quoted(line, begin));
      const auto length = comma == std::string_view::npos ? comma : comma - begin;
      const std::string_view field = trim(unquoted(trim(line.substr(begin, length))));
      if (contains(field, "\"")) {
        throw InputError({source_, line_, begin + 1}, "a quote stands inside a field",
                         "put quotes around a whole field or leave them out; a field holds none");
      }
      fields.push_back({field, begin + 1});
      if (comma == std::string_view::npos) return true;
      begin = comma + 1;
    }
  }
  return false;
}

bool CsvReader::next() {
  if (!read_line(row_)) return false;
  if (row_.size() != header_.size()) {
    throw InputError({source_, line_, row_.back().column},
                     fmt::format("the row has {} fields, the header has {}", row_.size(), header_.size()),
                     "give every row one value per column");
  }
  return true;
}

std::size_t CsvReader::index_of(std::string_view column) const {
  return static_cast<std::size_t>(std::find(header_.begin(), header_.end(), column) - header_.begin());
}

std::string_view CsvReader::text(std::string_view column) const { return row_.at(index_of(column)).text; }

InputLocation CsvReader::where(std::string_view column) const {
  return {source_, line_, row_.at(index_of(column)).column};
}

double CsvReader::number(std::string_view column) const {
  const auto value = parse_number(text(column));
  if (value) return *value;
  throw InputError(where(column), fmt::format("{} is '{}', not a finite number", column, text(column)),
                   "write a plain decimal number with a point, no unit");
}

double CsvReader::number_within(std::string_view column, double least, double most, std::string_view unit,
                                const std::string& mend) const {
  const double value = number(column);
  if (value >= least && value <= most) return value;
  throw InputError(where(column),
                   fmt::format("{} is {}, it must be from {} to {} {}", column, text(column), least, most, unit), mend);
}

long CsvReader::integer(std::string_view column) const {
  const auto value = parse_integer(text(column));
  if (value) return *value;
  throw InputError(where(column), fmt::format("{} is '{}', not a whole number", column, text(column)),
                   "write a whole number");
}

int CsvReader::count(std::string_view column, int most, const std::string& mend) const {
  const long value = integer(column);
  if (value >= 1 && value <= most) return static_cast<int>(value);
  throw InputError(where(column), fmt::format("{} is {}, it must be from 1 to {}", column, value, most), mend);
}

}  // namespace flyball
