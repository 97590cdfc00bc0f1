// Reads and writes small text files, numbers, and the strict numeric CSV dialect of profiles.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace flyball {

// Largest input file that is read into memory. A profile of 1,000 instructions at 200 clocks is about 10 MB.
inline constexpr std::size_t kMaxInputBytes = 256u << 20;

// Reads a whole file. Throws SystemError when it cannot be read, InputError when it is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxInputBytes);

// Writes a temporary file in the same folder and renames it, so that no reader ever sees half a file; what is no plain
// file of this user's is written in place. Missing parent folders are made. Throws SystemError.
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Does the same with what `write` puts into the stream, a piece at a time. Throws what `write` throws, too; the file is
// then as it was.
void write_file_by(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

// Return `text` without the blanks around it, and without a pair of double quotes around it.
[[nodiscard]] std::string_view trim(std::string_view text, std::string_view blanks = " \t\r");
[[nodiscard]] std::string_view unquoted(std::string_view text);

[[nodiscard]] constexpr bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the parts of a text between the separators, at least one; they may be empty.
[[nodiscard]] std::vector<std::string_view> split_at(char separator, std::string_view text);

// Read the whole of `text`, which may have blanks around it, as a finite number; nullopt where it is none. Independent
// of the locale.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
[[nodiscard]] std::optional<long> parse_integer(std::string_view text);

// Reads an amount of memory with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB ("40 GB", "11.5GiB"), in bytes;
// nullopt where it is none.
[[nodiscard]] std::optional<double> parse_bytes(std::string_view text);

// Reads a duration with a unit ("10ms", "1.5 s", "250us"), or a bare number of seconds; nullopt where it is neither.
[[nodiscard]] std::optional<double> parse_duration_seconds(std::string_view text);

// Comma-separated values with one header line. '#' lines and blank lines are skipped; CR LF endings, a UTF-8 byte
// order mark and double quotes around a field are accepted, and commas only within these. Every accessor throws
// InputError with the file, line and column of the field that is wrong. The text must outlive the reader.
class CsvReader {
 public:
  // A required column that may be missing where another one is there.
  struct StandIn {
    std::string_view missing;
    std::string_view instead;
  };

  // Throws InputError where there is no header, a name of `required` is missing, or a name occurs twice.
  CsvReader(std::string source, std::string_view text, const std::vector<std::string>& required, StandIn stand_in = {});

  [[nodiscard]] bool has_column(std::string_view name) const;
  // The names of the columns, in the order of the file.
  [[nodiscard]] const std::vector<std::string>& columns() const { return header_; }

  // Moves to the next data row; false at the end. Throws when a row has another number of fields than the header.
  bool next();

  [[nodiscard]] std::string_view text(std::string_view column) const;
  [[nodiscard]] double number(std::string_view column) const;  // finite
  [[nodiscard]] double number_within(std::string_view column, double least, double most, std::string_view unit,
                                     const std::string& mend) const;
  [[nodiscard]] long integer(std::string_view column) const;
  [[nodiscard]] int count(std::string_view column, int most, const std::string& mend) const;  // from 1

  // The place of a field of the current row, for the caller's own errors.
  [[nodiscard]] InputLocation where(std::string_view column) const;
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  struct Field {
    std::string_view text;
    std::size_t column = 1;
  };

  bool read_line(std::vector<Field>& fields);
  [[nodiscard]] std::size_t index_of(std::string_view column) const;

  std::string source_;
  std::string_view rest_;
  std::size_t line_ = 0;
  std::vector<std::string> header_;
  std::vector<Field> row_;
};

}  // namespace flyball
