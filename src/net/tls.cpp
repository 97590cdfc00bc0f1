// OpenSSL by way of Asio, TLS 1.2 or later. A client checks the server's chain and its name or address; OpenSSL's
// reasons are put into words that say what to mend.
#include "net/tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::size_t kMostPemBytes = 1u << 20u;

std::shared_ptr<ssl::context> make_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  return context;
}

// OpenSSL's reason alone: its codes and library names help nobody.
std::string reason_of(const boost::system::error_code& error) {
  const char* reason = ERR_reason_error_string(static_cast<unsigned long>(error.value()));
  return reason == nullptr ? error.message() : reason;
}

// The system's authorities: where OpenSSL was built to look, or what the environment names. An OpenSSL that is linked
// in looks in /etc/ssl, where Red Hat's systems have no certificates by the names that OpenSSL looks up.
void trust_the_system(ssl::context& context, boost::system::error_code& error) {
  constexpr const char* kRedHatBundle = "/etc/pki/tls/certs/ca-bundle.crt";
  context.set_default_verify_paths(error);
  if (error || std::getenv(X509_get_default_cert_file_env()) != nullptr) return;
  if (::access(X509_get_default_cert_file(), R_OK) == 0 || ::access(kRedHatBundle, R_OK) != 0) return;
  context.load_verify_file(kRedHatBundle, error);
}

std::string time_text(const ASN1_TIME* time) {
  BIO* memory = BIO_new(BIO_s_mem());
  ASN1_TIME_print(memory, time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

void check_times(const X509* certificate, const std::string& file) {
  const ASN1_TIME* begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(end) < 0) {
    throw InputError({file}, fmt::format("the certificate expired on {}", time_text(end)), "renew it");
  }
  if (X509_cmp_current_time(begin) > 0) {
    throw InputError({file}, fmt::format("the certificate holds only from {}", time_text(begin)),
                     "set this machine's clock, or wait");
  }
}

}  // namespace

std::shared_ptr<ssl::context> make_server_tls(const TlsFiles& files) {
  auto context = make_context(ssl::context::tls_server);
  const std::string certificate = read_text_file(files.certificate, kMostPemBytes);
  const std::string key = read_text_file(files.key, kMostPemBytes);
  boost::system::error_code error;
  context->use_certificate_chain(boost::asio::buffer(certificate), error);
  if (error) {
    throw InputError({files.certificate}, fmt::format("is no certificate in PEM form ({})", reason_of(error)),
                     "give the server's certificate, followed by those that lead to its authority");
  }
  check_times(SSL_CTX_get0_certificate(context->native_handle()), files.certificate);
  // Without this, OpenSSL would ask for the passphrase of a protected key on the terminal.
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error && ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH) {
    throw InputError({files.key}, fmt::format("is not the key of {}", files.certificate),
                     "name the two that belong together");
  }
  if (error) {
    throw InputError({files.key}, fmt::format("is no private key in PEM form ({})", reason_of(error)),
                     "give the certificate's key, without a passphrase");
  }
  // A group may have been given the right on purpose, as ssl-cert is.
  struct stat status {};
  if (::stat(files.key.c_str(), &status) == 0 && (status.st_mode & S_IRWXO) != 0) {
    throw InputError({files.key}, "the key can be read or changed by everybody", "chmod o= " + files.key);
  }
  return context;
}

std::shared_ptr<ssl::context> make_client_tls(const std::string& ca_file) {
  auto context = make_context(ssl::context::tls_client);
  boost::system::error_code error;
  if (ca_file.empty()) {
    trust_the_system(*context, error);
  } else {
    const std::string authorities = read_text_file(ca_file, kMostPemBytes);
    context->add_certificate_authority(boost::asio::buffer(authorities), error);
  }
  if (error) {
    throw InputError({ca_file}, fmt::format("holds no certificates in PEM form ({})", reason_of(error)),
                     "give those of the authorities to trust");
  }
  context->set_verify_mode(ssl::verify_peer);
  return context;
}

void expect_host(SSL* connection, const std::string& host) {
  boost::system::error_code no_address;
  (void)boost::asio::ip::make_address(host, no_address);
  if (no_address) {
    SSL_set_tlsext_host_name(connection, host.c_str());
    SSL_set1_host(connection, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str());
  }
}

std::string handshake_problem(SSL* connection, const boost::system::error_code& error) {
  const long verified = SSL_get_verify_result(connection);
  if (verified != X509_V_OK) {
    const char* mend = "";
    switch (verified) {
      case X509_V_ERR_CERT_HAS_EXPIRED: mend = "; renew it on the server, if this machine's clock is right"; break;
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH: mend = "; use a name that the certificate is for"; break;
      case X509_V_ERR_CERT_NOT_YET_VALID: mend = "; compare the clocks of both machines"; break;
      default: mend = "; name the file of its authority (ca_file, or the environment's SSL_CERT_FILE)"; break;
    }
    return fmt::format("the server's certificate is refused: {}{}", X509_verify_cert_error_string(verified), mend);
  }
  if (error.category() != boost::asio::error::get_ssl_category()) return error.message();
  if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_WRONG_VERSION_NUMBER) {
    return "the server speaks no TLS there; use http://";
  }
  return "TLS: " + reason_of(error);
}

bool is_plain_http(const boost::system::error_code& error) {
  return error.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace flyball
