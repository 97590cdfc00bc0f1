#include "account/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

namespace flyball {
namespace {

std::string folder() {
  std::error_code code;
  const std::filesystem::path path = std::filesystem::temp_directory_path(code);
  return code ? "/tmp" : path.string();
}

[[noreturn]] void fail(const char* what) {
  throw SystemError(fmt::format(
      "cannot {} a temporary file in {}: {}\n  to mend: set TMPDIR to a folder with room, or allow more memory", what,
      folder(), std::strerror(errno)));
}

}  // namespace

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpillFile::open() {
  descriptor_ = ::open(folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ >= 0) return;
  // Not every file system has nameless files.
  std::string name = folder() + "/flyball_XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail("make");
  ::unlink(name.c_str());
}

void SpillFile::append(const void* data, std::size_t bytes) {
  if (descriptor_ < 0) open();
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pwrite(descriptor_, from, bytes, static_cast<off_t>(size_));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write");
    from += count;
    bytes -= static_cast<std::size_t>(count);
    size_ += static_cast<std::uint64_t>(count);
  }
}

void SpillFile::read(std::uint64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("read");
    to += count;
    bytes -= static_cast<std::size_t>(count);
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace flyball
