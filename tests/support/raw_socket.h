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
  // To the end of the connection, or, if given, until what was read contains `words`.
  [[nodiscard]] std::string read_all() const { return read(std::nullopt); }
  [[nodiscard]] std::string read_until(std::string_view words) const { return read(words); }

 private:
  [[nodiscard]] std::string read(std::optional<std::string_view> until) const {
    std::string all;
    char block[4096];
    ssize_t count = 0;
    while ((!until || all.find(*until) == std::string::npos) && (count = ::read(socket_, block, sizeof block)) > 0) {
      all.append(block, static_cast<std::size_t>(count));
    }
    return all;
  }

  int socket_;
};

}  // namespace flyball::testing
