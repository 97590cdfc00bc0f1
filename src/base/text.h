// Reading and writing of small text files, and the strict numeric CSV dialect of profiles.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace flyball {

// Largest input file that is read into memory. A profile of 1,000 operations times 200 clocks is about 10 MB.
inline constexpr std::size_t kMaxInputBytes = 256u << 20;

// Reads a whole file. Throws SystemError when it cannot be read, InputError when it is larger than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxInputBytes);

// Writes through a temporary file in the same folder and renames it, so that no reader ever sees half a file.
// Missing parent folders are made. Throws SystemError.
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Without what is around it: blanks; a pair of double quotes.
[[nodiscard]] std::string_view trim(std::string_view text, std::string_view blanks = " \t\r");
[[nodiscard]] std::string_view unquoted(std::string_view text);

// The whole of `text` (surrounding blanks allowed) as a finite number; nullopt otherwise. Locale-independent.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
[[nodiscard]] std::optional<long> parse_integer(std::string_view text);

// A duration with a unit ("10ms", "1.5 s", "250us"); a bare number is taken as seconds. nullopt when neither.
[[nodiscard]] std::optional<double> parse_duration_seconds(std::string_view text);

// Comma-separated values with one header line. '#' lines and blank lines are skipped; CR LF endings, a UTF-8 byte
// order mark and double quotes around a field are accepted; fields hold no commas, quotes or line ends. Every accessor
// throws InputError with the file, line and column of the field that is wrong. The text must outlive the reader.
class CsvReader {
 public:
  // Throws InputError when there is no header, or a name of `required` is missing, or a name stands twice.
  CsvReader(std::string source, std::string_view text, const std::vector<std::string>& required);

  [[nodiscard]] bool has_column(std::string_view name) const;

  // Moves to the next data row; false at the end. Throws when a row has another number of fields than the header.
  bool next();

  [[nodiscard]] std::string_view text(std::string_view column) const;
  [[nodiscard]] double number(std::string_view column) const;  // finite
  [[nodiscard]] long integer(std::string_view column) const;

  // Where a field of the current row stands, for the caller's own complaints.
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
