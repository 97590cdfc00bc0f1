// The bytes of a file, or of text in memory, in order, inflated where they are gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace flyball {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills `to` with up to `max` bytes, fewer only at the end; 0 after it. Throws SystemError where reading fails,
  // InputError where gzip is damaged; gzip that merely ends too early gives what there is, see cut_off().
  [[nodiscard]] virtual std::size_t read(char* to, std::size_t max) = 0;

  [[nodiscard]] virtual double share() const = 0;  // of the file that is read, in [0, 1]
  [[nodiscard]] virtual bool cut_off() const = 0;  // the gzip stream has no end
};

// Throws SystemError where the file cannot be opened. With `ahead`, a thread inflates the next block of gzip while the
// caller works on this one; what it throws comes out of read().
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(const std::string& path, bool ahead);

// The bytes from `begin` on and before `end` of a file as they stand in it, inflated or not; `end` may lie behind the
// file's. Throws SystemError where the file cannot be opened.
[[nodiscard]] std::unique_ptr<ByteSource> open_range(const std::string& path, std::uint64_t begin, std::uint64_t end);

// How long a file is whose bytes open_bytes() gives as they stand in it, and open_range() any part of; 0 of others: of
// gzip, of pipes, of what is not there.
[[nodiscard]] std::uint64_t plain_size(const std::string& path);

// `text` must outlive the source; `name` is for errors.
[[nodiscard]] std::unique_ptr<ByteSource> bytes_of(std::string name, std::string_view text);

}  // namespace flyball
