// Reads composition files.
#include "profile/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/toml_file.h"

namespace flyball {
namespace {

constexpr std::size_t kMostCompositionBytes = 1u << 20;
constexpr std::int64_t kMostLayers = 100'000;
constexpr std::size_t kMostStagesComposed = 10'000;
constexpr double kMostTimes = 1e6;

const std::vector<std::string> kTopKeys = {"layers", "operation"};
const std::vector<std::string> kComposedKeys = {"instruction", "segment"};
const std::vector<std::string> kUseKeys = {"file", "label", "per_layer", "per_operation", "stages"};

constexpr const char* kOperationMend =
    "write [[operation]], below it instruction = \"forward\", and for each of its segments [[operation.segment]] with "
    "file = \"fwd_attn.jsonl\"";

class CompositionFile final : TomlFile {
 public:
  CompositionFile(const std::string& source, std::string_view text,
                  const std::function<Segment(const std::string&)>& load)
      : TomlFile(source, text), load_(load) {
    check_keys(root(), kTopKeys, "");
    composition_.source = source;
  }

  Composition read() {
    read_layers();
    const toml::node* operations = root().get("operation");
    if (operations == nullptr) throw InputError({composition_.source}, "there is no [[operation]]", kOperationMend);
    for_each_table(*operations, "operation", [&](const toml::table& table) { read_operation(table); });
    return std::move(composition_);
  }

 private:
  template <class See>
  void for_each_table(const toml::node& node, const std::string& what, See see) const {
    const auto* list = node.as_array();
    if (list == nullptr || list->empty()) fail(node, what + " must be a list of tables", kOperationMend);
    for (const toml::node& one : *list) {
      if (!one.is_table()) fail(one, fmt::format("{} holds {}", what, type_name(one)), kOperationMend);
      see(*one.as_table());
    }
  }

  void read_layers() {
    const toml::node* node = root().get("layers");
    const toml::array* list = node == nullptr ? nullptr : node->as_array();
    if (list == nullptr || list->empty() || list->size() > kMostStagesComposed) {
      const std::string problem = fmt::format("layers must be a list of 1 to {} numbers", kMostStagesComposed);
      const char* mend = "write how many layers each stage has, for example layers = [14, 14]";
      if (node != nullptr) fail(*node, problem, mend);
      throw InputError({composition_.source}, problem, mend);
    }
    for (const toml::node& one : *list) composition_.layers.push_back(count(one, "layers", kMostLayers));
  }

  void read_operation(const toml::table& table) {
    check_keys(table, kComposedKeys, " in [[operation]]");
    ComposedOperation operation{word(table, table, "instruction"), {}};
    for (const ComposedOperation& other : composition_.operations) {
      if (other.instruction == operation.instruction) {
        fail(*table.get("instruction"), fmt::format("'{}' stands twice", operation.instruction),
             "put all its segments below one [[operation]]");
      }
    }
    const toml::node* segments = table.get("segment");
    if (segments == nullptr) fail(table, "the operation has no segment", kOperationMend);
    for_each_table(*segments, "segment",
                   [&](const toml::table& use) { operation.uses.push_back(read_use(use, operation)); });
    composition_.operations.push_back(std::move(operation));
  }

  SegmentUse read_use(const toml::table& table, const ComposedOperation& operation) {
    check_keys(table, kUseKeys, " in [[operation.segment]]");
    SegmentUse use;
    use.segment = segment_of(table);
    const bool has_settings = composition_.segments[use.segment].has_settings();
    if (table.get("label") != nullptr) {
      use.label = label(table, operation);
      if (!has_settings) {
        fail(*table.get("label"),
             fmt::format("{} has no settings to be labelled", composition_.segments[use.segment].source),
             "remove the label, or give its rows overlap_start, overlap_end, sm and block");
      }
    } else if (has_settings) {
      fail(table, fmt::format("the settings of {} need a label", composition_.segments[use.segment].source),
           "write for example label = \"attention_configs\", the profile's column for them");
    }
    const toml::node* per_layer = table.get("per_layer");
    const toml::node* per_operation = table.get("per_operation");
    if (per_layer != nullptr && per_operation != nullptr) {
      fail(*per_operation, "per_operation is stated beside per_layer", "keep one of them");
    }
    use.per_layer = per_operation == nullptr;
    if (per_layer != nullptr) use.times = number(*per_layer, "per_layer", 1e-6, kMostTimes, "");
    if (per_operation != nullptr) use.times = number(*per_operation, "per_operation", 1e-6, kMostTimes, "");
    if (const toml::node* stages = table.get("stages")) use.stages = stage_list(*stages);
    return use;
  }

  std::size_t segment_of(const toml::table& table) {
    const std::string file = word(table, table, "file");
    const auto [entry, is_new] = loaded_.try_emplace(file, composition_.segments.size());
    if (is_new) composition_.segments.push_back(load_(file));
    return entry->second;
  }

  std::string label(const toml::table& table, const ComposedOperation& operation) const {
    const toml::node& node = *table.get("label");
    std::string name = word(table, table, "label");
    if (!is_label_column(name)) {
      fail(node, fmt::format("'{}' cannot be a label", name), "choose a name that the profile's format does not know");
    }
    for (const SegmentUse& other : operation.uses) {
      if (other.label == name)
        fail(node, fmt::format("label '{}' stands twice", name), "name each segment's label once");
    }
    return name;
  }

  std::vector<int> stage_list(const toml::node& node) const {
    const auto stages = static_cast<std::int64_t>(composition_.layers.size());
    std::vector<int> list;
    const toml::array* numbers = node.as_array();
    if (numbers == nullptr || numbers->empty()) {
      fail(node, "stages must be a list of numbers", "write for example stages = [0]");
    }
    for (const toml::node& one : *numbers) {
      const auto* value = one.as_integer();
      if (value == nullptr || value->get() < 0 || value->get() >= stages) {
        fail(one, "there is no such stage", fmt::format("write whole numbers from 0, below {}", stages));
      }
      list.push_back(static_cast<int>(value->get()));
    }
    return list;
  }

  // A string that can be a field of a profile.
  std::string word(const toml::table& table, const toml::node& where, const std::string& key) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) fail(where, fmt::format("there is no {}", key), kOperationMend);
    const auto* value = node->as_string();
    if (value == nullptr || value->get().empty()) fail(*node, fmt::format("{} must be a string", key), kOperationMend);
    const std::string& text = value->get();
    if (text.find_first_of(",\"\r\n") != std::string::npos || trim(text).size() != text.size()) {
      fail(*node, fmt::format("{} has a comma, a quote, a line end or blanks around it", key), "choose another name");
    }
    return text;
  }

  const std::function<Segment(const std::string&)>& load_;
  std::map<std::string, std::size_t> loaded_;
  Composition composition_;
};

}  // namespace

Composition read_composition(const std::string& source, std::string_view text,
                             const std::function<Segment(const std::string&)>& load) {
  return CompositionFile(source, text, load).read();
}

Composition read_composition_file(const std::filesystem::path& path) {
  return read_composition(path.string(), read_text_file(path, kMostCompositionBytes), [&](const std::string& file) {
    return read_segment_file((path.parent_path() / file).lexically_normal());
  });
}

}  // namespace flyball
