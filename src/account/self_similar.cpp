// std::regex finds the matches; digits within them are replaced. Names beyond 2,000 bytes are left alone, since
// std::regex recurses with their length.
#include "account/self_similar.h"

#include <fmt/format.h>

#include <cctype>
#include <regex>

#include "base/error.h"

namespace flyball {
namespace {

constexpr std::size_t kLongestName = 2000;  // std::regex recurses with the length of what it matches

constexpr const char* kLayers = "(?:^|[/.])(?:[A-Za-z]*[Ll]ayers?|h|[A-Za-z]*[Bb]locks?|stages?)[_./][0-9]+(?=$|[/.])";

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

struct SelfSimilar::Pattern {
  std::regex regex;
};

SelfSimilar::SelfSimilar() : SelfSimilar(std::string(kLayers)) {}

SelfSimilar::SelfSimilar(const std::string& pattern) : pattern_(std::make_unique<Pattern>()) {
  try {
    pattern_->regex.assign(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("'{}' is no pattern: {}; an example: layer_\\d+", pattern, error.what()));
  }
}

SelfSimilar::~SelfSimilar() = default;
SelfSimilar::SelfSimilar(SelfSimilar&&) noexcept = default;
SelfSimilar& SelfSimilar::operator=(SelfSimilar&&) noexcept = default;

std::string SelfSimilar::summarised(std::string_view name) const {
  if (name.size() > kLongestName) return std::string(name);
  std::string result;
  const char* at = name.data();
  const char* const end = name.data() + name.size();
  for (std::cregex_iterator match(at, end, pattern_->regex), none; match != none; ++match) {
    const char* const first = (*match)[0].first;
    const char* const last = (*match)[0].second;
    result.append(at, first);
    for (at = first; at != last; ++at) {
      if (!is_digit(*at)) {
        result += *at;
      } else if (at == first || !is_digit(at[-1])) {
        result += '*';
      }
    }
  }
  return result.append(at, end);
}

}  // namespace flyball
