// The first block is read ahead to look for gzip's magic number. Inflating goes member by member; a stream that ends
// within a member is cut off, which is noted and is no error.
#include "trace/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace flyball {
namespace {

constexpr std::size_t kBlock = 1u << 18;

}  // namespace

ByteSource::ByteSource(const std::string& path)
    : name_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), in_(kBlock) {
  if (descriptor_.get() < 0) throw SystemError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw SystemError(fmt::format("cannot read {}: it is a folder", path));
    if (S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
  }
  start();
}

ByteSource::ByteSource(std::string name, std::string_view text)
    : name_(std::move(name)), descriptor_(-1), text_(text), size_(text.size()), in_(kBlock) {
  start();
}

ByteSource::~ByteSource() {
  if (gzip_) ::inflateEnd(&stream_);
}

void ByteSource::start() {
  have_ = read_raw(in_.data(), in_.size());
  const bool gzip = std::string_view(in_.data(), have_).starts_with("\x1f\x8b");
  if (gzip && ::inflateInit2(&stream_, 15 + 16) != Z_OK) throw SystemError("zlib cannot be started");
  gzip_ = gzip;
}

void ByteSource::fail() const { throw SystemError(fmt::format("reading {} failed: {}", name_, std::strerror(errno))); }

double ByteSource::share() const {
  return size_ == 0 ? 0.0 : std::min(1.0, static_cast<double>(read_) / static_cast<double>(size_));
}

std::size_t ByteSource::read_raw(char* to, std::size_t max) {
  std::size_t got = 0;
  if (descriptor_.get() < 0) {
    got = text_.copy(to, max);
    text_.remove_prefix(got);
  }
  while (descriptor_.get() >= 0 && got < max) {
    const ssize_t count = ::read(descriptor_.get(), to + got, max - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  read_ += got;
  return got;
}

std::string_view ByteSource::peek(std::size_t count) {
  peeked_.resize(count);
  peeked_.resize(read_on(peeked_.data(), count));
  return peeked_;
}

std::size_t ByteSource::read(char* to, std::size_t max) {
  const std::size_t peeked = std::min(max, peeked_.size() - peeked_at_);
  std::copy_n(peeked_.data() + peeked_at_, peeked, to);
  peeked_at_ += peeked;
  return peeked + (peeked < max ? read_on(to + peeked, max - peeked) : 0);
}

std::size_t ByteSource::read_on(char* to, std::size_t max) {
  if (gzip_) return read_inflated(to, max);
  const std::size_t looked_at = std::min(max, have_ - at_);
  std::copy_n(in_.data() + at_, looked_at, to);
  at_ += looked_at;
  return looked_at + (looked_at < max ? read_raw(to + looked_at, max - looked_at) : 0);
}

std::size_t ByteSource::read_inflated(char* to, std::size_t max) {
  std::size_t got = 0;
  while (got < max && !ended_) {
    if (at_ == have_) {
      have_ = read_raw(in_.data(), in_.size());
      at_ = 0;
      if (have_ == 0) {  // the end of the file: fine between two members, otherwise the stream was cut off
        ended_ = true;
        cut_off_ = !between_members_;
        break;
      }
    }
    if (between_members_) {
      // Members may follow each other; zeros after the last are padding.
      if (in_[at_] == '\0') {
        ++at_;
        continue;
      }
      ::inflateReset(&stream_);
      between_members_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(in_.data() + at_);
    stream_.avail_in = static_cast<uInt>(have_ - at_);
    stream_.next_out = reinterpret_cast<Bytef*>(to + got);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(max - got, std::numeric_limits<uInt>::max()));
    const uInt before = stream_.avail_out;
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    at_ = have_ - stream_.avail_in;
    got += before - stream_.avail_out;
    if (code == Z_STREAM_END) {
      between_members_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      throw InputError({name_}, fmt::format("the gzip stream is damaged ({})", stream_.msg ? stream_.msg : "zlib"),
                       "copy the file again, or unpack what can be saved with gzip -dc");
    }
  }
  return got;
}

}  // namespace flyball
