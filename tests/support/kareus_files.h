// Reads what Zeus and Kareus run: freqs_pipeline_N.py and scheds_pipeline_N.py, a Python list per stage of tuples of
// strings and numbers, and comments.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::testing {

struct PythonPlan {
  // By stage and computation: the tuple's fields, strings without their quotes, numbers as they stand.
  std::vector<std::vector<std::vector<std::string>>> stages;
  std::map<std::string, double> comments;  // "# Iteration 324 total cost: 1.5" is "total cost"
};

class PythonPlanReader {
 public:
  explicit PythonPlanReader(std::string_view text) : text_(text) {}

  PythonPlan read() {
    PythonPlan plan;
    expect('[');
    while (!taken(']')) {
      expect('[');
      plan.stages.emplace_back();
      while (!taken(']')) {
        plan.stages.back().push_back(tuple());
        static_cast<void>(taken(','));
      }
      static_cast<void>(taken(','));
    }
    while (taken('#')) comment(plan);
    if (at_ != text_.size()) fail();
    return plan;
  }

 private:
  std::vector<std::string> tuple() {
    std::vector<std::string> fields;
    expect('(');
    while (!taken(')')) {
      fields.push_back(field());
      static_cast<void>(taken(','));
    }
    return fields;
  }

  std::string field() {
    skip_blanks();
    std::string value;
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) {
      const char quote = text_[at_++];
      while (at_ < text_.size() && text_[at_] != quote) value += text_[at_++];
      expect(quote);
      return value;
    }
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) value += text_[at_++];
    if (value.empty()) fail();
    return value;
  }

  // "Iteration 324 total cost: 1.5"
  void comment(PythonPlan& plan) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    const std::size_t name = line.find(' ', line.find("Iteration ") + 10);
    const std::size_t colon = line.find(": ");
    if (name == std::string_view::npos || colon == std::string_view::npos) fail();
    plan.comments[std::string(line.substr(name + 1, colon - name - 1))] =
        std::stod(std::string(line.substr(colon + 2)));
    at_ = end;
    skip_blanks();
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool taken(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_blanks();
    return true;
  }
  void expect(char c) {
    if (!taken(c)) fail();
  }
  [[noreturn]] void fail() const { throw std::runtime_error("no such plan, at byte " + std::to_string(at_)); }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline PythonPlan read_python_plan(std::string_view text) { return PythonPlanReader(text).read(); }

}  // namespace flyball::testing
