// Whether the files are any good is found when the server begins to listen.
#include "cli/tls_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/option_values.h"

namespace flyball {

void add_tls_options(const Command& command, TlsOptions& options) {
  add_value(command, "--tls-cert", options.certificate, parse_path, "FILE",
            "speak TLS on TCP with this certificate (PEM, with those that lead to its authority)");
  add_value(command, "--tls-key", options.key, parse_path, "FILE", "the certificate's key (PEM)");
}

std::optional<TlsFiles> tls_files(const TlsOptions& options, bool on_tcp) {
  if (!options.certificate && !options.key) return std::nullopt;
  if (!options.certificate || !options.key) throw UsageError("--tls-cert and --tls-key go together");
  if (!on_tcp) throw UsageError("TLS is for TCP; give --listen beside --socket");
  return TlsFiles{*options.certificate, *options.key};
}

std::string url_of(const std::string& host, std::uint16_t port, bool tls) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

}  // namespace flyball
