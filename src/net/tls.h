// TLS 1.2 and later: contexts and checks of certificates for server and client. Only files of this folder include it.
#pragma once

#include <memory>
#include <string>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/system/error_code.hpp>

#include "net/server.h"

namespace flyball {

// Throws InputError where a file cannot be used (it is not PEM, key and certificate do not belong together, the
// certificate is not yet or no longer valid, everybody may read the key), and SystemError where it cannot be read.
[[nodiscard]] std::shared_ptr<boost::asio::ssl::context> make_server_tls(const TlsFiles& files);

// Trusts the authorities in `ca_file`, or the system's where it is empty (OpenSSL: SSL_CERT_FILE names others). Throws
// InputError and SystemError.
[[nodiscard]] std::shared_ptr<boost::asio::ssl::context> make_client_tls(const std::string& ca_file);

// Makes the client accept only a certificate for this name or numeric address.
void expect_host(SSL* connection, const std::string& host);

// Says why a client's handshake failed, and how to mend it.
[[nodiscard]] std::string handshake_problem(SSL* connection, const boost::system::error_code& error);

// Returns whether the other side spoke plain HTTP.
[[nodiscard]] bool is_plain_http(const boost::system::error_code& error);

}  // namespace flyball
