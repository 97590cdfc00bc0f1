// Request targets: percent-decoding and the part behind the question mark.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball {

// Names and values in the order of the request; a name may occur more than once.
class QueryString {
 public:
  QueryString() = default;
  explicit QueryString(std::vector<std::pair<std::string, std::string>> pairs) : pairs_(std::move(pairs)) {}

  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& pairs() const { return pairs_; }
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;  // the first

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

struct Target {
  std::string path;  // begins with '/'
  QueryString query;
};

// Splits and decodes an origin-form target ("/gpu/get_power?gpu_ids=0%2C1"); '+' in the query is a blank. Returns
// nullopt where the path does not begin with '/', an escape is not two hexadecimal digits, or what is decoded holds a
// control character or is no UTF-8.
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

// Decodes %XX. Returns nullopt as above.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank = false);

// Writes everything but letters, digits and "-._~" as %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace flyball
