// A temporary file that has no name and goes away with its owner, in TMPDIR or /tmp. Made at the first write.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flyball {

class SpillFile {
 public:
  SpillFile() = default;
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Both throw SystemError, with the folder and how to choose another.
  void append(const void* data, std::size_t bytes);
  void read(std::uint64_t offset, void* data, std::size_t bytes) const;  // from what was appended

  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  void open();

  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace flyball
