// A client that says what no HTTP client would.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flyball::testing {

class RawSocket {
 public:
  explicit RawSocket(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  // On loopback.
  explicit RawSocket(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~RawSocket() { ::close(socket_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void send(std::string_view bytes) const {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // What comes next, up to 4096 bytes; empty at the end of the connection.
  [[nodiscard]] std::string read_some() const {
    char block[4096];
    const ssize_t count = ::read(socket_, block, sizeof block);
    return std::string(block, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  // To the end of the connection, or, if given, until what was read contains `words`.
  [[nodiscard]] std::string read_all() const { return read(std::nullopt); }
  [[nodiscard]] std::string read_until(std::string_view words) const { return read(words); }

 private:
  [[nodiscard]] std::string read(std::optional<std::string_view> until) const {
    std::string all;
    while (!until || all.find(*until) == std::string::npos) {
      const std::string more = read_some();
      if (more.empty()) break;
      all += more;
    }
    return all;
  }

  int socket_;
};

}  // namespace flyball::testing
