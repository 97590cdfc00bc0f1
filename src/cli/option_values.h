// Values of command line options, parsed strictly: a text that is not a value from its first to its last character is a
// UsageError, which names the option, what stood there and what is wanted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "pipeline/late_clocks.h"

namespace flyball {

[[nodiscard]] int parse_count(std::string_view option, std::string_view text);  // 1, 2, ...
[[nodiscard]] double parse_positive(std::string_view option, std::string_view text);
[[nodiscard]] double parse_straggler(std::string_view option, std::string_view text);          // a slowdown, from 1
[[nodiscard]] double parse_percent(std::string_view option, std::string_view text);            // from 0 below 100
[[nodiscard]] double parse_share(std::string_view option, std::string_view text);              // between 0 and 1
[[nodiscard]] Seconds parse_duration(std::string_view option, std::string_view text);          // above 0
[[nodiscard]] Seconds parse_duration_or_zero(std::string_view option, std::string_view text);  // not below 0
[[nodiscard]] int parse_memory_option(std::string_view option, std::string_view text);         // "9", "60GB/6.4GB"
[[nodiscard]] std::vector<Watts> parse_powers(std::string_view option,
                                              std::string_view text);  // "75" or "75,72,..."; to 1e6

[[nodiscard]] LatencyRange parse_latency(std::string_view option, std::string_view text);  // "0", "7ms", "4ms..9ms"

// `wanted` says in the error what the option takes: "a whole number from 1 to 16".
[[nodiscard]] long parse_integer_within(std::string_view option, std::string_view text, long least, long most,
                                        std::string_view wanted);
[[nodiscard]] double parse_number_within(std::string_view option, std::string_view text, double least, double most,
                                         std::string_view wanted);

// Makes a parser of lists such as "4" or "4,3,..." from the parser of one value.
template <class Parse>
[[nodiscard]] auto parse_list(Parse parse) {
  return [parse](std::string_view option, std::string_view text) {
    std::vector<decltype(parse(option, text))> values;
    for (const std::string_view value : split_at(',', text)) values.push_back(parse(option, value));
    return values;
  };
}

// Reads "0,1", or "none", which gives an empty list.
[[nodiscard]] std::vector<std::size_t> parse_gpus(std::string_view option, std::string_view text);

// Takes any text but the empty one.
[[nodiscard]] std::string parse_path(std::string_view option, std::string_view text);

// Takes one of `choices`. For anything else it throws UsageError, which lists them.
[[nodiscard]] std::string parse_choice(std::string_view option, std::string_view text,
                                       const std::vector<std::string>& choices);

// Reads one of an enumeration's names (base/names.h).
template <Named E>
[[nodiscard]] E parse_named(std::string_view option, std::string_view text) {
  return *value_named<E>(parse_choice(option, text, names_of<E>()));
}

// Adds an option that fills `target` by parse(name, text). `target` is an optional where it matters whether the option
// was given, else a value that holds the default. It must outlive the parsing.
template <class Target, class Parse>
Option add_value(const Command& app, const std::string& name, Target& target, const Parse& parse,
                 const std::string& what, const std::string& description) {
  const auto fill = [&target, name, parse](const std::string& text) {
    if constexpr (std::is_arithmetic_v<Target>) {
      target = static_cast<Target>(parse(name, text));
    } else {
      target = parse(name, text);
    }
  };
  return app.add_option_function(name, fill, description).type_name(what);
}

// Adds an option that takes one of a fixed list of words.
Option add_choice(const Command& app, const std::string& name, std::optional<std::string>& target,
                  const std::vector<std::string>& choices, const std::string& what, const std::string& description);

// Adds an option that takes one of an enumeration's names.
template <Named E, class Target>
Option add_named_choice(const Command& app, const std::string& name, Target& target, const std::string& what,
                        const std::string& description) {
  return add_value(app, name, target, parse_named<E>, what, description).suggests(names_of<E>());
}

// Adds the option --format, which takes text or json.
void add_format(const Command& app, std::optional<std::string>& target);

// Returns where a database of this name lies that no option names: where systemd says, else in the user's state folder.
// Throws UsageError where neither is known.
[[nodiscard]] std::string default_database(std::string_view name);

// --agent WHERE: an endpoint, as parse_endpoint() reads it; none: default_agent_endpoint().
void add_agent_option(const Command& app, std::optional<std::string>& target);

}  // namespace flyball
