// Reads the bytes of a file, or of text in memory, in order, and inflates them where they are gzip. Not thread-safe.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"

namespace flyball {

class ByteSource {
 public:
  // Reads a file. Throws SystemError where it cannot be opened or read.
  explicit ByteSource(const std::string& path);
  // Reads `text`, which must outlive the source; `name` is for errors.
  ByteSource(std::string name, std::string_view text);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills `to` with up to `max` bytes and returns their number, which is less than `max` only at the end, and 0 after
  // it. Throws SystemError where reading fails, and InputError where gzip is damaged. Where gzip merely ends too early,
  // returns the bytes that there are; see cut_off().
  [[nodiscard]] std::size_t read(char* to, std::size_t max);

  // Returns the first `count` bytes, or all where there are fewer; read() gives them, too. Must be called before
  // read(). Throws what read() throws.
  [[nodiscard]] std::string_view peek(std::size_t count);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] double share() const;  // the part of the file that has been read, in [0, 1]; 0 for pipes
  [[nodiscard]] bool cut_off() const { return cut_off_; }  // whether the gzip stream has no end

 private:
  void start();
  std::size_t read_on(char* to, std::size_t max);
  std::size_t read_raw(char* to, std::size_t max);
  std::size_t read_inflated(char* to, std::size_t max);
  [[noreturn]] void fail() const;

  std::string name_;
  FileDescriptor descriptor_;
  std::string_view text_;   // the text that is left, where there is no descriptor
  std::uint64_t size_ = 0;  // 0 where it is not known
  std::uint64_t read_ = 0;

  std::string peeked_;
  std::size_t peeked_at_ = 0;
  std::vector<char> in_;  // read ahead: the first bytes, which had to be looked at, and gzip
  std::size_t have_ = 0;
  std::size_t at_ = 0;
  bool gzip_ = false;
  bool between_members_ = false;
  bool ended_ = false;
  bool cut_off_ = false;
  z_stream stream_{};
};

}  // namespace flyball
