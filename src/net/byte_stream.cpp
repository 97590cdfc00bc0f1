// Every operation goes to the TLS stream where there is one, else to the plain one. These few functions are all that
// Asio's operations are instantiated for.
#include "net/byte_stream.h"

namespace flyball {

using boost::asio::generic::stream_protocol;

void ByteStream::async_connect(const stream_protocol::endpoint& peer, IoHandler handler) {
  plain_.async_connect(peer, std::move(handler));
}

void ByteStream::async_handshake(boost::asio::ssl::stream_base::handshake_type side, IoHandler handler) {
  tls_->async_handshake(side, std::move(handler));
}

void ByteStream::async_shutdown(IoHandler handler) { tls_->async_shutdown(std::move(handler)); }

void ByteStream::read_some(boost::asio::mutable_buffer buffer, IoHandler handler) {
  if (tls_) return tls_->async_read_some(buffer, std::move(handler));
  plain_.async_read_some(buffer, std::move(handler));
}

void ByteStream::write_some(const ConstBuffers& buffers, IoHandler handler) {
  if (tls_) return tls_->async_write_some(buffers, std::move(handler));
  plain_.async_write_some(buffers, std::move(handler));
}

}  // namespace flyball
