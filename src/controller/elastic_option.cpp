// Each key may stand once, in any order.
#include "controller/elastic_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::string_view kElastic = "flyball:elastic";
constexpr std::string_view kPipeline = "flyball:pipeline";
constexpr long kMostGpus = 65'536;
constexpr std::size_t kLongestKind = 64;

[[noreturn]] void refuse(const std::string& problem) {
  throw InputError(
      {"the job's comment"}, problem,
      "it looks like flyball:elastic,kind=NAME,iterations=N,min=1,max=8 or flyball:pipeline,kind=NAME,iterations=N");
}

}  // namespace

std::string ElasticOption::text() const {
  const std::string sizes = pipeline ? "" : fmt::format(",min={},max={}{}", min, max, shrinks ? ",shrinks" : "");
  return fmt::format("{},kind={},iterations={}{}", pipeline ? kPipeline : kElastic, kind, iterations, sizes);
}

std::optional<ElasticOption> parse_elastic_option(std::string_view comment) {
  const std::size_t begin = std::min(comment.find(kElastic), comment.find(kPipeline));
  if (begin == std::string_view::npos) return std::nullopt;
  ElasticOption option;
  std::string_view rest = comment.substr(begin);
  option.pipeline = rest.starts_with(kPipeline);
  const std::string_view mark = option.pipeline ? kPipeline : kElastic;
  rest.remove_prefix(mark.size());
  rest = rest.substr(0, rest.find_first_of("; \t"));
  if (!rest.empty() && rest.front() != ',') refuse(fmt::format("'{}' follows {}", rest, mark));
  std::set<std::string_view> seen;
  const auto count = [](std::string_view key, std::string_view value, long most) {
    const auto number = parse_integer(value);
    if (!number || *number < 1 || *number > most)
      refuse(fmt::format("{}={} is no number from 1 to {}", key, value, most));
    return *number;
  };
  if (!rest.empty()) rest.remove_prefix(1);
  if (rest.empty()) refuse("kind is missing");
  for (const std::string_view part : split_at(',', rest)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    if (!seen.insert(key).second) refuse(fmt::format("{} is given twice", key));
    if (key == "kind") {
      const bool good =
          !value.empty() && value.size() <= kLongestKind && std::ranges::all_of(value, [](unsigned char c) {
            return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '/';
          });
      if (!good) refuse(fmt::format("kind={} is no name of letters, digits and . _ - /", value));
      option.kind = value;
    } else if (key == "iterations") {
      option.iterations = static_cast<double>(count(key, value, 1'000'000'000'000));
    } else if (option.pipeline) {
      refuse(fmt::format("'{}' is no part of a pipeline's", part));
    } else if (key == "min") {
      option.min = static_cast<int>(count(key, value, kMostGpus));
    } else if (key == "max") {
      option.max = static_cast<int>(count(key, value, kMostGpus));
    } else if (part == "shrinks") {
      option.shrinks = true;
    } else {
      refuse(fmt::format("'{}' is no part of it", part));
    }
  }
  if (option.kind.empty()) refuse("kind is missing");
  if (option.iterations == 0.0) refuse("iterations is missing");
  if (option.max < option.min) refuse(fmt::format("max={} is below min={}", option.max, option.min));
  return option;
}

}  // namespace flyball
