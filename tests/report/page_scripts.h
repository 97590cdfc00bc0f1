// What a script of web/ asks of the markup that it works on, read out of the script: nothing runs scripts in a test, so
// a class or a name that only one of the two has would go unseen.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "draw/web_files.h"

namespace flyball::testing {

struct MarkupElement {
  std::string name;
  std::string tag;  // all between < and >
  std::size_t parent;

  // A name, a class or an attribute, or a name with one of the others: "svg.bars", "[data-from]".
  [[nodiscard]] bool is(const std::string& selector) const {
    const std::size_t mark = std::min(selector.find_first_of(".["), selector.size());
    if (mark > 0 && selector.substr(0, mark) != name) return false;
    if (mark == selector.size()) return true;
    const std::string wanted = selector.substr(mark + 1);
    if (selector[mark] == '[') return tag.find(" " + wanted.substr(0, wanted.size() - 1) + "=") != std::string::npos;
    const std::size_t begin = tag.find(" class=\"");
    if (begin == std::string::npos) return false;
    const std::string classes = tag.substr(begin + 8, tag.find('"', begin + 8) - begin - 8);
    return (" " + classes + " ").find(" " + wanted + " ") != std::string::npos;
  }
};

// Of sound markup without void elements.
inline std::vector<MarkupElement> elements_of(const std::string& markup) {
  std::vector<MarkupElement> elements;
  std::vector<std::size_t> open;
  for (std::size_t begin = markup.find('<'); begin != std::string::npos; begin = markup.find('<', begin)) {
    std::size_t end = begin;
    for (bool quoted = false; end < markup.size() && (quoted || markup[end] != '>'); ++end) {
      if (markup[end] == '"') quoted = !quoted;
    }
    const std::string tag = markup.substr(begin + 1, end - begin - 1);
    begin = end;
    if (tag[0] == '/') {
      if (!open.empty()) open.pop_back();
      continue;
    }
    const std::string name = tag.substr(0, tag.find_first_of(" \n/"));
    elements.push_back({name, tag, open.empty() ? std::string::npos : open.back()});
    if (tag.back() != '/') open.push_back(elements.size() - 1);
    if (name == "script" || name == "style") begin = markup.find("</" + name, begin);
  }
  return elements;
}

// "svg.bars > svg": each the parent of the next.
inline bool holds(const std::vector<MarkupElement>& elements, const std::string& selector) {
  std::vector<std::string> chain;  // the innermost first
  for (std::size_t begin = 0; begin != std::string::npos;) {
    const std::size_t end = selector.find(" > ", begin);
    const std::string part = selector.substr(begin, end == std::string::npos ? end : end - begin);
    if (part != ":scope") chain.insert(chain.begin(), part);
    begin = end == std::string::npos ? end : end + 3;
  }
  return std::any_of(elements.begin(), elements.end(), [&](const MarkupElement& innermost) {
    const MarkupElement* element = &innermost;
    for (const std::string& part : chain) {
      if (element == nullptr || !element->is(part)) return false;
      element = element->parent == std::string::npos ? nullptr : &elements[element->parent];
    }
    return true;
  });
}

// All that part(), querySelector() and querySelectorAll() of the script look for is in the markup.
inline void expect_parts(std::string_view script, const std::string& markup) {
  const std::string text(embedded_file(web_files(), script));
  const std::vector<MarkupElement> elements = elements_of(markup);
  static const std::regex asked(R"((part|querySelector|querySelectorAll)\(([\w.]+, )?'([^']+)'\))");
  std::sregex_iterator k(text.begin(), text.end(), asked);
  EXPECT_NE(k, std::sregex_iterator()) << script << " asks for nothing";
  for (; k != std::sregex_iterator(); ++k) {
    EXPECT_TRUE(holds(elements, (*k)[3])) << script << " asks for " << (*k)[3];
  }
}

// The members that the script reads of `object`: `object.name` and `{name, name} = object`.
inline std::set<std::string> members_read(std::string_view script, const std::string& object) {
  const std::string text(embedded_file(web_files(), script));
  std::set<std::string> names;
  const std::regex member("\\b" + object + R"(\.(\w+))");
  for (std::sregex_iterator k(text.begin(), text.end(), member), end; k != end; ++k) names.insert((*k)[1]);
  const std::regex members(R"(\{([\w, ]+)\} = ([\w.]+\.)?)" + object + "\\b");
  static const std::regex word(R"(\w+)");
  for (std::sregex_iterator k(text.begin(), text.end(), members), end; k != end; ++k) {
    const std::string list = (*k)[1];
    for (std::sregex_iterator w(list.begin(), list.end(), word); w != end; ++w) names.insert(w->str());
  }
  return names;
}

inline std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// The JSON in the first script element.
inline nlohmann::json script_data(const std::string& markup) {
  const std::size_t begin = markup.find('>', markup.find("<script")) + 1;
  return nlohmann::json::parse(markup.substr(begin, markup.find("</script>") - begin));
}

// The JSON that stands packed in the first script element: in base64, zlib's format.
inline nlohmann::json unpacked_data(const std::string& markup) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t begin = markup.find('>', markup.find("<script")) + 1;
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (std::size_t i = begin; markup[i] != '<' && markup[i] != '='; ++i) {
    bits = bits << 6U | static_cast<unsigned>(digits.find(markup[i]));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xffU);
  }
  std::string text(4 << 20, '\0');
  uLongf size = text.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(text.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                       bytes.size()),
            Z_OK);
  return nlohmann::json::parse(text.substr(0, size));
}

}  // namespace flyball::testing
