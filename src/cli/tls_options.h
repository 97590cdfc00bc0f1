// --tls-cert and --tls-key, of commands that serve HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "net/server.h"

namespace flyball {

struct TlsOptions {
  std::optional<std::string> certificate;
  std::optional<std::string> key;
};

void add_tls_options(const Command& command, TlsOptions& options);

// Returns nothing where neither was given. Throws UsageError where one is missing, where everybody can read the key,
// and where there is no TCP to speak TLS on.
[[nodiscard]] std::optional<TlsFiles> tls_files(const TlsOptions& options, bool on_tcp);

// "https://[::1]:4940"
[[nodiscard]] std::string url_of(const std::string& host, std::uint16_t port, bool tls);

}  // namespace flyball
