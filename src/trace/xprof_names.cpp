// Splits names at their slashes and unwraps what transformations of JAX and TensorFlow's gradient tape have added.
#include "trace/xprof_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace flyball {
namespace {

// Keras gives the operations of an optimizer a scope of the optimizer's name.
// Keras 3 writes them in lower case.
constexpr std::array<std::string_view, 28> kOptimizers{"Adadelta",
                                                       "Adafactor",
                                                       "Adagrad",
                                                       "Adam",
                                                       "AdamW",
                                                       "Adamax",
                                                       "Ftrl",
                                                       "Lamb",
                                                       "Lion",
                                                       "Muon",
                                                       "Nadam",
                                                       "RMSprop",
                                                       "LossScaleOptimizer",
                                                       "SGD",
                                                       "adadelta",
                                                       "adafactor",
                                                       "adagrad",
                                                       "adam",
                                                       "adam_w",
                                                       "adamax",
                                                       "ftrl",
                                                       "lamb",
                                                       "lion",
                                                       "muon",
                                                       "nadam",
                                                       "rmsprop",
                                                       "loss_scale_optimizer",
                                                       "sgd"};

bool is_type(std::string_view text) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && (std::isupper(static_cast<unsigned char>(text.front())) != 0 || text.front() == '_') &&
         std::all_of(text.begin(), text.end(), letter);
}

// "Adam_1" is a second Adam.
bool is_optimizer_scope(std::string_view part) {
  const std::size_t number = part.find_last_not_of("0123456789");
  if (number != std::string_view::npos && number + 1 < part.size() && part[number] == '_') {
    part = part.substr(0, number);
  }
  return std::find(kOptimizers.begin(), kOptimizers.end(), part) != kOptimizers.end();
}

bool applies_gradients(std::string_view type) {
  for (const std::string_view begin : {"Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"}) {
    if (type.starts_with(begin)) return true;
  }
  return false;
}

// Takes the first part of a name, up to a slash that is in no bracket, off the name.
std::string_view take_part(std::string_view& name) {
  std::size_t depth = 0;
  std::size_t end = 0;
  for (; end < name.size(); ++end) {
    const char c = name[end];
    if (c == '(' || c == '[') ++depth;
    if ((c == ')' || c == ']') && depth > 0) --depth;
    if (c == '/' && depth == 0) break;
  }
  const std::string_view part = name.substr(0, end);
  name.remove_prefix(std::min(end + 1, name.size()));
  return part;
}

void append(std::string& path, std::string_view part) {
  if (part.empty()) return;
  if (!path.empty()) path += '/';
  path += part;
}

// Returns what stands in the brackets of "word(...)".
std::optional<std::string_view> inside(std::string_view part, std::string_view word) {
  if (!part.starts_with(word) || !part.ends_with(')') || part.size() < word.size() + 2 || part[word.size()] != '(') {
    return std::nullopt;
  }
  return part.substr(word.size() + 1, part.size() - word.size() - 2);
}

}  // namespace

bool is_tensorflow_operation(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon > 0 && text[colon - 1] != ':' && is_type(text.substr(colon + 1)) &&
         text.find(' ') == std::string_view::npos;
}

XProfName tensorflow_name(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view type = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  std::string_view name = text.substr(0, colon);
  XProfName read{{}, Phase::kForward};
  if (applies_gradients(type)) read.phase = Phase::kOptimizer;
  while (!name.empty()) {
    const std::string_view part = take_part(name);
    const bool is_scope = !name.empty();
    if (is_scope && is_optimizer_scope(part)) read.phase = Phase::kOptimizer;
    if (part == "gradient_tape" || part == "gradients") {
      read.phase = Phase::kBackward;
    } else {
      append(read.path, part);
    }
  }
  return read;
}

XProfName jax_name(std::string_view text) {
  if (text.ends_with(':')) text.remove_suffix(1);  // a type would follow
  XProfName read;
  bool first = true;
  while (!text.empty()) {
    std::string_view part = take_part(text);
    for (bool unwrapped = true; unwrapped;) {
      unwrapped = false;
      for (const std::string_view word : {"transpose", "jvp", "vmap", "pmap", "jit", "pjit"}) {
        const std::optional<std::string_view> inner = inside(part, word);
        if (!inner) continue;
        if (word == "transpose") read.phase = Phase::kBackward;
        if (word == "jvp" && read.phase == Phase::kUnknown) read.phase = Phase::kForward;
        // The function that is compiled as a whole stands before every name.
        const bool whole = word.ends_with("jit") && (first || *inner == "main");
        part = whole ? std::string_view() : *inner;
        unwrapped = true;
      }
    }
    first = false;
    if (part == "rematted_computation") {
      read.phase = Phase::kBackward;
      continue;
    }
    if (part == "checkpoint") continue;
    // What was in brackets may have several parts, functions that are compiled by themselves among them.
    while (!part.empty()) {
      const std::string_view inner = take_part(part);
      append(read.path, inside(inner, "jit").value_or(inner));
    }
  }
  return read;
}

}  // namespace flyball
