// Reads our own data files by type. They are compiled in, so that a wrong one is our bug; Error then says which key it
// is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/error.h"
#include "profile/embedded_data.h"

namespace flyball {

// A table of a data file, which it does not own.
class DataTable {
 public:
  DataTable(std::string where, const toml::table& table) : where_(std::move(where)), table_(&table) {}

  template <class T>
  [[nodiscard]] std::optional<T> find(std::string_view key) const {
    return (*table_)[key].template value<T>();
  }

  template <class T>
  [[nodiscard]] T get(std::string_view key) const {
    if (const auto value = find<T>(key)) return *value;
    throw bad(key);
  }

  template <class T>
  [[nodiscard]] std::vector<T> list(std::string_view key) const {
    const toml::array* array = (*table_)[key].as_array();
    if (array == nullptr) throw bad(key);
    std::vector<T> values;
    for (const toml::node& node : *array) {
      const auto value = node.value<T>();
      if (!value) throw bad(key);
      values.push_back(*value);
    }
    return values;
  }

  [[nodiscard]] std::optional<DataTable> find_table(std::string_view key) const {
    const toml::table* inner = (*table_)[key].as_table();
    if (inner == nullptr) return std::nullopt;
    return DataTable(fmt::format("{}: {}", where_, key), *inner);
  }

  [[nodiscard]] DataTable table(std::string_view key) const {
    if (const auto inner = find_table(key)) return *inner;
    throw bad(key);
  }

  // The elements of an array; empty when the key is absent.
  [[nodiscard]] std::vector<const toml::node*> elements(std::string_view key) const {
    std::vector<const toml::node*> nodes;
    if (const toml::array* array = (*table_)[key].as_array()) {
      for (const toml::node& node : *array) nodes.push_back(&node);
    }
    return nodes;
  }

  [[nodiscard]] Error bad(std::string_view key) const {
    return Error(fmt::format("data file {}: '{}' is missing or of the wrong type", where_, key));
  }

 private:
  std::string where_;
  const toml::table* table_;
};

[[nodiscard]] inline toml::table parse_data_file(std::string_view path) {
  try {
    return toml::parse(embedded_file(path), path);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("data file {}: {}", path, error.description()));
  }
}

// The names of the data files below `folder`, without folder and ".toml", sorted.
[[nodiscard]] inline std::vector<std::string> data_file_names(std::string_view folder) {
  std::vector<std::string> names;
  for (std::string_view path : embedded_files()) {
    constexpr std::string_view kSuffix = ".toml";
    if (!path.starts_with(folder) || !path.ends_with(kSuffix)) continue;
    path.remove_prefix(folder.size());
    path.remove_suffix(kSuffix.size());
    names.emplace_back(path);
  }
  return names;
}

}  // namespace flyball
