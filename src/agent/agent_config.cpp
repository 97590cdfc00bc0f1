#include "agent/agent_config.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/toml_file.h"

namespace flyball {
namespace {

constexpr std::size_t kMostConfigBytes = 1u << 20u;
constexpr std::size_t kLeastTokenBytes = 16;
constexpr Seconds kLeastPeriod{0.001};
constexpr Seconds kMostPeriod{1.0};

class ConfigFile final : TomlFile {
 public:
  ConfigFile(std::string source, std::string_view text) : TomlFile(std::move(source), text) {}

  void fill(AgentConfig& config) const {
    const Keys keys = {
        {"socket", [&](const toml::node& node) { config.socket_path = text(node, "\"/run/flyball/agent.sock\""); }},
        {"socket_mode", [&](const toml::node& node) { config.socket_mode = mode(node); }},
        {"tcp", [&](const toml::node& node) { config.tcp = address(node); }},
        {"token_file", [&](const toml::node& node) { config.token_file = text(node, "a path"); }},
        {"state_dir", [&](const toml::node& node) { config.state_dir = text(node, "a path"); }},
        {"period", [&](const toml::node& node) { config.period = duration(node, kLeastPeriod, kMostPeriod); }},
        {"zeusd", [&](const toml::node& node) { config.zeusd = boolean(node); }},
        {"zeusd_remote_hold",
         [&](const toml::node& node) { config.zeusd_remote_hold = duration(node, Seconds(1), Seconds(86400)); }},
        {"connections", [&](const toml::node& node) { config.limits.connections = count(node); }},
        {"access", [&](const toml::node& node) { access(node, config.access); }},
    };
    each(root(), keys);
  }

 private:
  using Keys = std::map<std::string, std::function<void(const toml::node&)>>;

  void each(const toml::table& table, const Keys& keys) const {
    std::vector<std::string> names;
    for (const auto& [name, action] : keys) names.push_back(name);
    check_keys(table, names, "");
    for (const auto& [key, value] : table) keys.at(std::string(key.str()))(value);
  }

  [[nodiscard]] std::string text(const toml::node& node, const std::string& example) const {
    const auto* value = node.as_string();
    if (value == nullptr || value->get().empty()) fail(node, "this must be a text", "write for example " + example);
    return value->get();
  }

  [[nodiscard]] bool boolean(const toml::node& node) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) fail(node, "this must be true or false", "write true or false, without quotes");
    return value->get();
  }

  [[nodiscard]] std::size_t count(const toml::node& node) const {
    const auto* value = node.as_integer();
    if (value == nullptr || value->get() < 1 || value->get() > 1'000'000) {
      fail(node, "this must be a whole number from 1 to 1000000", "write for example 16384");
    }
    return static_cast<std::size_t>(value->get());
  }

  [[nodiscard]] unsigned mode(const toml::node& node) const {
    const std::string digits = text(node, "\"0660\"");
    unsigned value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '7' || digits.size() > 4) fail(node, "this is no mode", "write for example \"0660\"");
      value = value * 8 + static_cast<unsigned>(c - '0');
    }
    return value;
  }

  [[nodiscard]] HostPort address(const toml::node& node) const {
    const std::string value = text(node, "\"127.0.0.1:4938\"");
    try {
      return parse_host_port("tcp", value);
    } catch (const UsageError& error) {
      fail(node, error.what(), "write for example \"127.0.0.1:4938\"");
    }
  }

  [[nodiscard]] Seconds duration(const toml::node& node, Seconds least, Seconds most) const {
    const auto value = parse_duration_seconds(text(node, "\"4ms\""));
    if (!value || *value < least.value() || *value > most.value()) {
      fail(node, "this is no duration in range",
           fmt::format("write a text from \"{}s\" to \"{}s\", such as \"4ms\"", least.value(), most.value()));
    }
    return Seconds(*value);
  }

  [[nodiscard]] uid_t user(const toml::node& node) const {
    if (const auto* number = node.as_integer()) {
      if (number->get() >= 0 && number->get() < 0xffffffffLL) return static_cast<uid_t>(number->get());
      fail(node, "this is no user's number", "write a number such as 1000, or a name in quotes");
    }
    const std::string name = text(node, "1000 or \"alice\"");
    const passwd* entry = ::getpwnam(name.c_str());
    if (entry == nullptr) fail(node, fmt::format("there is no user '{}'", name), "write a user's number or name");
    return entry->pw_uid;
  }

  [[nodiscard]] std::set<uid_t> users(const toml::node& node) const {
    const auto* list = node.as_array();
    if (list == nullptr) fail(node, "this must be a list of users", "write for example [1000, \"alice\"]");
    std::set<uid_t> all;
    for (const toml::node& one : *list) all.insert(user(one));
    return all;
  }

  // [access]: users = [...], remote = true, gpu.0 = [...].
  void access(const toml::node& node, AccessRules& rules) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write [access]");
    const Keys keys = {
        {"users", [&](const toml::node& value) { rules.everywhere = users(value); }},
        {"remote", [&](const toml::node& value) { rules.remote = boolean(value); }},
        {"gpu", [&](const toml::node& value) { gpus(value, rules); }},
    };
    each(*table, keys);
  }

  void gpus(const toml::node& node, AccessRules& rules) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write for example [access.gpu] and below it 0 = [1000]");
    for (const auto& [key, value] : *table) {
      const long index = parse_integer(key.str()).value_or(-1);
      if (index < 0) fail(value, fmt::format("'{}' is no GPU's index", key.str()), "write for example 0 = [1000]");
      rules.of_gpu[static_cast<std::size_t>(index)] = users(value);
    }
  }
};

}  // namespace

void read_agent_config(const std::string& source, std::string_view text, AgentConfig& config) {
  ConfigFile(source, text).fill(config);
}

void read_agent_config(const std::string& path, AgentConfig& config) {
  read_agent_config(path, read_text_file(path, kMostConfigBytes), config);
}

std::string read_token(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, 4096);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw InputError({path.string()}, "others than its owner may read the token", "chmod 600 " + path.string());
  }
  std::string token = text.substr(0, text.find_first_of("\r\n"));
  if (token.size() < kLeastTokenBytes) {
    throw InputError({path.string()}, fmt::format("the token has {} bytes", token.size()),
                     fmt::format("write at least {} in one line, for example with: openssl rand -hex 32 > {}",
                                 kLeastTokenBytes, path.string()));
  }
  return token;
}

void check_agent_config(const AgentConfig& config) {
  if (config.period && (*config.period < kLeastPeriod || *config.period > kMostPeriod)) {
    throw UsageError(fmt::format("a sampling period of {:g} ms is outside {:g} ms to {:g} s; give --period 4ms",
                                 config.period->value() * 1e3, kLeastPeriod.value() * 1e3, kMostPeriod.value()));
  }
  if (config.socket_path.empty() && !config.tcp) throw UsageError("nothing to listen on: give --socket or --tcp");
  if (config.tcp && config.token.empty() && !is_loopback(config.tcp->host)) {
    throw UsageError(
        fmt::format("refusing to listen on {} without a token: whoever reaches the port could set this node's clocks\n"
                    "  give one with --token-file, or listen on 127.0.0.1",
                    config.tcp->host));
  }
}

}  // namespace flyball
