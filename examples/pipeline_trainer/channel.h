// Messages between the processes of the trainer: fixed records over Unix sockets that keep message boundaries.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace trainer {

// The process at the other end is gone.
class Hangup : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One end of a connection. Movable; closes itself.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  ~Channel() { close(); }
  Channel(Channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Channel& operator=(Channel&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }

  static std::pair<Channel, Channel> pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      throw std::runtime_error(std::string("socketpair: ") + std::strerror(errno));
    }
    return {Channel(ends[0]), Channel(ends[1])};
  }

  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  [[nodiscard]] int descriptor() const { return descriptor_; }

  template <class Record>
  void send(const Record& record) const {
    if (::send(descriptor_, &record, sizeof record, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof record)) {
      throw Hangup(std::string("send: ") + std::strerror(errno));
    }
  }

  // Waits for the next record.
  template <class Record>
  [[nodiscard]] Record receive() const {
    Record record;
    ssize_t size = 0;
    do {
      size = ::recv(descriptor_, &record, sizeof record, 0);
    } while (size < 0 && errno == EINTR);
    if (size != static_cast<ssize_t>(sizeof record)) throw Hangup("the other process is gone");
    return record;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace trainer
