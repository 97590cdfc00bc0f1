// Each table of the file has a map from key to a function that checks the value and stores it; a key that the map does
// not have is refused with its line and column (TomlFile).
#include "agent/agent_config.h"

#include <fmt/format.h>
#include <pwd.h>

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
constexpr Seconds kLeastPeriod{0.001};
constexpr Seconds kMostPeriod{1.0};
constexpr double kMostOfKnob = 100'000.0;  // W, MHz

class ConfigFile final : TomlFile {
 public:
  ConfigFile(std::string source, std::string_view text) : TomlFile(std::move(source), text) {}

  void fill(AgentConfig& config) const {
    const Keys keys = {
        {"socket", [&](const toml::node& node) { config.socket_path = text(node, "\"/run/flyball/agent.sock\""); }},
        {"socket_mode", [&](const toml::node& node) { config.socket_mode = mode(node); }},
        {"tcp", [&](const toml::node& node) { config.tcp = address(node); }},
        {"token_file", [&](const toml::node& node) { config.token_file = text(node, "a path"); }},
        {"tls_cert", [&](const toml::node& node) { config.tls_cert = text(node, "a path"); }},
        {"tls_key", [&](const toml::node& node) { config.tls_key = text(node, "a path"); }},
        {"state_dir", [&](const toml::node& node) { config.state_dir = text(node, "a path"); }},
        {"period", [&](const toml::node& node) { config.period = duration(node, kLeastPeriod, kMostPeriod); }},
        {"zeusd", [&](const toml::node& node) { config.zeusd = boolean(node); }},
        {"zeusd_remote_hold",
         [&](const toml::node& node) { config.zeusd_remote_hold = duration(node, Seconds(1), Seconds(86400)); }},
        {"zeusd_shared", [&](const toml::node& node) { config.zeusd_shared = boolean(node); }},
        {"connections", [&](const toml::node& node) { config.limits.connections = count(node); }},
        {"per_user", [&](const toml::node& node) { per_user(node, config); }},
        {"access", [&](const toml::node& node) { access(node, config.access); }},
        {"gpu", [&](const toml::node& node) { rules(node, config.gpus); }},
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

  void per_user(const toml::node& node, AgentConfig& config) const {
    UserLimits& limits = config.per_user;
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write [per_user]");
    const Keys keys = {
        {"connections", [&](const toml::node& value) { config.limits.connections_per_party = count(value); }},
        {"streams", [&](const toml::node& value) { limits.streams = count(value); }},
        {"stream_events", [&](const toml::node& value) { limits.stream_events = static_cast<double>(count(value)); }},
        {"leases", [&](const toml::node& value) { limits.leases = count(value); }},
        {"requests", [&](const toml::node& value) { limits.requests = static_cast<double>(count(value)); }},
    };
    each(*table, keys);
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

  // Reads [access]: users = [...], remote = true, remote_ends_leases = false, gpu.0 = [...].
  void access(const toml::node& node, AccessRules& rules) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write [access]");
    const Keys keys = {
        {"users", [&](const toml::node& value) { rules.everywhere = users(value); }},
        {"slow_others", [&](const toml::node& value) { rules.slow_others = boolean(value); }},
        {"remote", [&](const toml::node& value) { rules.remote = boolean(value); }},
        {"remote_ends_leases", [&](const toml::node& value) { rules.remote_ends_leases = boolean(value); }},
        {"gpu", [&](const toml::node& value) { gpus(value, rules); }},
    };
    each(*table, keys);
  }

  [[nodiscard]] std::size_t gpu_index(const toml::node& node, const toml::key& key, const char* example) const {
    const long index = parse_integer(key.str()).value_or(-1);
    if (index < 0) fail(node, fmt::format("'{}' is no GPU's index", key.str()), example);
    return static_cast<std::size_t>(index);
  }

  // Reads a pair such as [210, 1410]; a 0 at either end is no bound.
  [[nodiscard]] std::pair<double, double> span(const toml::node& node, const char* unit) const {
    const auto* list = node.as_array();
    const auto wrong = [&](const char* what) {
      fail(node, what, fmt::format("write two numbers, for example [200, 1200], in {}; 0 is no bound", unit));
    };
    if (list == nullptr || list->size() != 2) wrong("this must be a least and a most value");
    const double least = number((*list)[0], "the least value", 0, kMostOfKnob, unit);
    const double most = number((*list)[1], "the most value", 0, kMostOfKnob, unit);
    if (most > 0 && least > most) wrong("the first is above the second");
    return {least, most};
  }

  template <class Value>
  void bounds(const toml::node& node, const char* unit, std::optional<Value>& least, std::optional<Value>& most) const {
    const auto [low, high] = span(node, unit);
    least = low > 0 ? std::optional<Value>(low) : std::nullopt;
    most = high > 0 ? std::optional<Value>(high) : std::nullopt;
  }

  [[nodiscard]] ClockBounds clocks(const toml::node& node) const {
    const auto [low, high] = span(node, "MHz");
    if (!(low >= 1 && high >= 1)) fail(node, "this locks nothing", "write the lower and the upper clock in MHz");
    return {Megahertz(low), Megahertz(high)};
  }

  // Reads [gpu.0] and [gpu.all].
  void rules(const toml::node& node, NodeRules& rules) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write for example [gpu.0]");
    for (const auto& [key, value] : *table) {
      if (key.str() == "all") {
        rules.every = rules_of_one(value);
      } else {
        rules.of_gpu[gpu_index(value, key, "write [gpu.0], or [gpu.all] for those that have no table")] =
            rules_of_one(value);
      }
    }
  }

  [[nodiscard]] GpuRules rules_of_one(const toml::node& node) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write for example [gpu.0]");
    GpuRules rules;
    GpuBounds& most = rules.bounds;
    GpuSettings& outside = rules.outside;
    const Keys outside_keys = {
        {"power_limit",
         [&](const toml::node& value) {
           outside.power_limit = Watts(number(value, "the power limit", 1, kMostOfKnob, "W"));
         }},
        {"sm_clocks", [&](const toml::node& value) { outside.sm_clocks = clocks(value); }},
        {"memory_clocks", [&](const toml::node& value) { outside.memory_clocks = clocks(value); }},
    };
    const Keys keys = {
        {"power_limit", [&](const toml::node& value) { bounds(value, "W", most.least_power, most.most_power); }},
        {"sm_clocks", [&](const toml::node& value) { bounds(value, "MHz", most.least_sm_clock, most.most_sm_clock); }},
        {"memory_clocks",
         [&](const toml::node& value) { bounds(value, "MHz", most.least_memory_clock, most.most_memory_clock); }},
        {"outside",
         [&](const toml::node& value) {
           const auto* inner = value.as_table();
           if (inner == nullptr) fail(value, "this must be a table", "write for example [gpu.0.outside]");
           each(*inner, outside_keys);
         }},
    };
    each(*table, keys);
    return rules;
  }

  void gpus(const toml::node& node, AccessRules& rules) const {
    const auto* table = node.as_table();
    if (table == nullptr) fail(node, "this must be a table", "write for example [access.gpu] and below it 0 = [1000]");
    for (const auto& [key, value] : *table) {
      rules.of_gpu[gpu_index(value, key, "write for example 0 = [1000]")] = users(value);
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

void check_agent_config(const AgentConfig& config) {
  if (config.period && (*config.period < kLeastPeriod || *config.period > kMostPeriod)) {
    throw UsageError(fmt::format("a sampling period of {:g} ms is outside {:g} ms to {:g} s; give --period 4ms",
                                 config.period->value() * 1e3, kLeastPeriod.value() * 1e3, kMostPeriod.value()));
  }
  if (config.socket_path.empty() && !config.tcp) throw UsageError("nothing to listen on: give --socket or --tcp");
  if (config.tls_cert.empty() != config.tls_key.empty()) throw UsageError("tls_cert and tls_key go together");
  if (!config.tls_cert.empty() && !config.tcp) throw UsageError("TLS is for TCP; give tcp beside tls_cert");
  if (config.tcp && config.token.empty() && !is_loopback(config.tcp->host)) {
    throw UsageError(
        fmt::format("refusing to listen on {} without a token: whoever reaches the port could set this node's clocks\n"
                    "  give one with --token-file, or listen on 127.0.0.1",
                    config.tcp->host));
  }
}

}  // namespace flyball
