// The base of all readers of the TOML files that people write. Every error says file, line, column and how to mend it.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace flyball {

// A parsed file, from which readers derive. All methods throw InputError, with the place of the error.
class TomlFile {
 protected:
  TomlFile(std::string source, std::string_view text);
  ~TomlFile() = default;

  [[nodiscard]] InputLocation at(const toml::source_region& region) const;
  [[noreturn]] void fail(const toml::node& node, const std::string& problem, const std::string& mend) const;

  // Throws for a key of `table` that is not `known`. `inside` says where the keys are, for example " in [p2p]"; empty
  // at the top.
  void check_keys(const toml::table& table, const std::vector<std::string>& known, const std::string& inside) const;
  // Returns advice for an unknown key; where it is empty, the nearest known key is proposed.
  [[nodiscard]] virtual std::string mend_of_key(const std::string& key, const std::vector<std::string>& known) const;

  // Reads a whole number from 1 to `most`.
  [[nodiscard]] int count(const toml::node& node, const std::string& what, std::int64_t most) const;
  // Reads a number from `least` to `most`. `unit` is that of the range and of the value, for the error; empty: none.
  [[nodiscard]] double number(const toml::node& node, const std::string& what, double least, double most,
                              const std::string& unit) const;
  // Returns the type of the node's value in words, with an article: "a table".
  [[nodiscard]] static std::string type_name(const toml::node& node);

  [[nodiscard]] const toml::table& root() const { return root_; }

 private:
  std::string source_;
  toml::table root_;
};

}  // namespace flyball
