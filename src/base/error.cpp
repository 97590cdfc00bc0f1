// Puts place, problem and advice into one text, which what() returns.
#include "base/error.h"

#include <fmt/format.h>

#include <utility>

namespace flyball {
namespace {

std::string describe(const InputLocation& where, const std::string& problem, const std::string& mend) {
  std::string text = where.source;
  if (where.line > 0) text += fmt::format(":{}", where.line);
  if (where.line > 0 && where.column > 0) text += fmt::format(":{}", where.column);
  text += ": " + problem;
  if (!mend.empty()) text += "\n  to mend: " + mend;
  return text;
}

}  // namespace

InputError::InputError(InputLocation where, const std::string& problem, const std::string& mend)
    : Error(describe(where, problem, mend)), where_(std::move(where)) {}

}  // namespace flyball
