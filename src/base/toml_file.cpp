// Parsed by toml++, whose source regions give each error its line and column.
#include "base/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/nearest_name.h"

namespace flyball {

TomlFile::TomlFile(std::string source, std::string_view text) : source_(std::move(source)) {
  try {
    root_ = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw InputError(at(error.source()), std::string(error.description()),
                     "write TOML, one 'key = value' per line and strings in double quotes");
  }
}

InputLocation TomlFile::at(const toml::source_region& region) const {
  return {source_, region.begin.line, region.begin.column};
}

void TomlFile::fail(const toml::node& node, const std::string& problem, const std::string& mend) const {
  throw InputError(at(node.source()), problem, mend);
}

void TomlFile::check_keys(const toml::table& table, const std::vector<std::string>& known,
                          const std::string& inside) const {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string mend = mend_of_key(name, known);
    if (mend.empty()) {
      const std::string nearest = nearest_name(name, known);
      mend = nearest.empty() ? fmt::format("the keys are {}", fmt::join(known, ", "))
                             : fmt::format("did you mean '{}'?", nearest);
    }
    throw InputError(at(key.source()), fmt::format("unknown key '{}'{}", name, inside), mend);
  }
}

std::string TomlFile::mend_of_key(const std::string& /*key*/, const std::vector<std::string>& /*known*/) const {
  return {};
}

int TomlFile::count(const toml::node& node, const std::string& what, std::int64_t most) const {
  const auto* value = node.as_integer();
  if (value == nullptr) {
    fail(node, fmt::format("{} is {}, it must be a whole number", what, type_name(node)),
         fmt::format("write for example {} = 4", what));
  }
  if (value->get() < 1 || value->get() > most) {
    fail(node, fmt::format("{} is {}, it must be from 1 to {}", what, value->get(), most),
         fmt::format("correct the number, or leave {} out", what));
  }
  return static_cast<int>(value->get());
}

double TomlFile::number(const toml::node& node, const std::string& what, double least, double most,
                        const std::string& unit) const {
  const std::string mend = unit.empty() ? "write a number in this range" : "write a number in " + unit;
  if (!node.is_number()) fail(node, fmt::format("{} is {}, it must be a number", what, type_name(node)), mend);
  const double value = node.value<double>().value_or(std::nan(""));
  if (!(value >= least && value <= most)) {
    const std::string range = fmt::format("{} to {}{}{}", least, most, unit.empty() ? "" : " ", unit);
    fail(node, fmt::format("{} is {}, it must be from {}", what, value, range), mend);
  }
  return value;
}

std::string TomlFile::type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "a boolean";
    default: return "a date or time";
  }
}

}  // namespace flyball
