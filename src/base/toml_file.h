// What all readers of TOML files that people write share: every complaint has file, line, column and the mend.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace flyball {

// A parsed file, to derive a reader from. All methods throw InputError at the place they complain of.
class TomlFile {
 protected:
  TomlFile(std::string source, std::string_view text);
  ~TomlFile() = default;

  [[nodiscard]] InputLocation at(const toml::source_region& region) const;
  [[noreturn]] void fail(const toml::node& node, const std::string& problem, const std::string& mend) const;

  // `inside`: where the keys stand, for example " in [p2p]"; nothing at the top.
  void check_keys(const toml::table& table, const std::vector<std::string>& known, const std::string& inside) const;
  // What is said of an unknown key before the nearest known one is looked for; empty: nothing.
  [[nodiscard]] virtual std::string mend_of_key(const std::string& key, const std::vector<std::string>& known) const;

  // A whole number from 1.
  [[nodiscard]] int count(const toml::node& node, const std::string& what, std::int64_t most) const;
  // `unit`: of the range and of the value; empty: none.
  [[nodiscard]] double number(const toml::node& node, const std::string& what, double least, double most,
                              const std::string& unit) const;
  // Of the node's value, with its article: "a table".
  [[nodiscard]] static std::string type_name(const toml::node& node);

  [[nodiscard]] const toml::table& root() const { return root_; }

 private:
  std::string source_;
  toml::table root_;
};

}  // namespace flyball
