#include "account/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "account/ahead.h"
#include "base/error.h"
#include "base/file_descriptor.h"

namespace flyball {
namespace {

class FileBytes : public ByteSource {
 public:
  explicit FileBytes(const std::string& path, std::uint64_t begin = 0,
                     std::uint64_t end = std::numeric_limits<std::uint64_t>::max())
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), left_(end - begin) {
    if (descriptor_.get() < 0) throw SystemError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    struct stat status {};
    if (::fstat(descriptor_.get(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) throw SystemError(fmt::format("cannot read {}: it is a folder", path));
      if (S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
    }
    size_ = std::min(size_, end) - std::min(size_, begin);
    if (begin > 0 && ::lseek(descriptor_.get(), static_cast<off_t>(begin), SEEK_SET) < 0) fail();
  }

  std::size_t read(char* to, std::size_t max) override {
    max = std::min<std::uint64_t>(max, left_);
    std::size_t got = 0;
    while (got < max) {
      const ssize_t count = ::read(descriptor_.get(), to + got, max - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      got += static_cast<std::size_t>(count);
    }
    left_ -= got;
    read_ += got;
    return got;
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }  // 0 where it is not known

  [[nodiscard]] double share() const override {
    return size_ == 0 ? 0.0 : std::min(1.0, static_cast<double>(read_.load()) / static_cast<double>(size_));
  }
  [[nodiscard]] bool cut_off() const override { return false; }

 private:
  [[noreturn]] void fail() const {
    throw SystemError(fmt::format("reading {} failed: {}", path_, std::strerror(errno)));
  }

  std::string path_;
  FileDescriptor descriptor_;
  std::uint64_t left_;
  std::uint64_t size_ = 0;
  std::atomic<std::uint64_t> read_{0};  // the reading thread counts, the caller asks
};

class TextBytes : public ByteSource {
 public:
  explicit TextBytes(std::string_view text) : text_(text) {}

  std::size_t read(char* to, std::size_t max) override {
    const std::size_t count = std::min(max, text_.size() - at_);
    std::copy_n(text_.data() + at_, count, to);
    at_ += count;
    return count;
  }

  [[nodiscard]] double share() const override {
    return text_.empty() ? 1.0 : static_cast<double>(at_) / static_cast<double>(text_.size());
  }
  [[nodiscard]] bool cut_off() const override { return false; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// Gives the first bytes again, which had to be looked at, and then the rest; inflates both where they are gzip.
class MaybeGzip : public ByteSource {
 public:
  MaybeGzip(std::string name, std::unique_ptr<ByteSource> raw)
      : name_(std::move(name)), raw_(std::move(raw)), in_(kBlock) {
    fill();
    gzip_ = is_gzip({in_.data(), have_});
    if (gzip_ && ::inflateInit2(&stream_, 15 + 16) != Z_OK) throw SystemError("zlib cannot be started");
  }
  ~MaybeGzip() override {
    if (gzip_) ::inflateEnd(&stream_);
  }
  MaybeGzip(const MaybeGzip&) = delete;
  MaybeGzip& operator=(const MaybeGzip&) = delete;

  std::size_t read(char* to, std::size_t max) override {
    if (gzip_) return read_inflated(to, max);
    const std::size_t looked_at = std::min(max, have_ - at_);
    std::copy_n(in_.data() + at_, looked_at, to);
    at_ += looked_at;
    return looked_at + (looked_at < max ? raw_->read(to + looked_at, max - looked_at) : 0);
  }

  [[nodiscard]] double share() const override { return raw_->share(); }
  [[nodiscard]] bool cut_off() const override { return cut_off_; }
  [[nodiscard]] bool inflates() const { return gzip_; }

 private:
  static constexpr std::size_t kBlock = 1u << 18;

  void fill() {
    have_ = raw_->read(in_.data(), in_.size());
    at_ = 0;
  }

  std::size_t read_inflated(char* to, std::size_t max) {
    std::size_t got = 0;
    while (got < max && !ended_) {
      if (at_ == have_) {
        fill();
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

  std::string name_;
  std::unique_ptr<ByteSource> raw_;
  std::vector<char> in_;
  std::size_t have_ = 0;
  std::size_t at_ = 0;
  bool gzip_ = false;
  bool between_members_ = false;
  bool ended_ = false;
  bool cut_off_ = false;
  z_stream stream_{};
};

class ReadAhead : public ByteSource {
 public:
  explicit ReadAhead(std::unique_ptr<ByteSource> inner)
      : inner_(std::move(inner)), blocks_([this](Block& block) { return fill(block); }) {}

  std::size_t read(char* to, std::size_t max) override {
    std::size_t got = 0;
    while (got < max) {
      if (at_ == block_.size()) {
        at_ = 0;
        if (!blocks_.next(block_)) {
          block_.clear();
          break;
        }
      }
      const std::size_t count = std::min(max - got, block_.size() - at_);
      std::copy_n(block_.data() + at_, count, to + got);
      at_ += count;
      got += count;
    }
    return got;
  }

  [[nodiscard]] double share() const override { return inner_->share(); }
  [[nodiscard]] bool cut_off() const override { return inner_->cut_off(); }  // asked at the end, when the thread rests

 private:
  using Block = std::vector<char>;
  static constexpr std::size_t kBlock = 1u << 20;

  bool fill(Block& block) {
    block.resize(kBlock);
    block.resize(inner_->read(block.data(), kBlock));
    return !block.empty();
  }

  std::unique_ptr<ByteSource> inner_;
  Block block_;
  std::size_t at_ = 0;
  Ahead<Block> blocks_;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path, bool ahead) {
  auto bytes = std::make_unique<MaybeGzip>(path, std::make_unique<FileBytes>(path));
  // A plain file lies in the page cache as a rule, where a thread costs more than it saves.
  if (!ahead || !bytes->inflates()) return bytes;
  return std::make_unique<ReadAhead>(std::move(bytes));
}

std::unique_ptr<ByteSource> open_range(const std::string& path, std::uint64_t begin, std::uint64_t end) {
  return std::make_unique<FileBytes>(path, begin, end);
}

std::uint64_t plain_size(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;  // a pipe may be opened only once
  FileBytes file(path);
  char magic[2];
  return is_gzip({magic, file.read(magic, sizeof magic)}) ? 0 : file.size();
}

std::unique_ptr<ByteSource> bytes_of(std::string name, std::string_view text) {
  return std::make_unique<MaybeGzip>(std::move(name), std::make_unique<TextBytes>(text));
}

}  // namespace flyball
