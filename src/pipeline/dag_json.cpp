// read_dag: the explicit computation DAG (JSON). The SAX parser of nlohmann reads through an iterator that records how
// far it has come, for the places of errors (decision 40). Cycles are looked for here by a depth-first search, since
// only here are the names and places known.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest_name.h"
#include "pipeline/pipeline_spec.h"

namespace flyball {
namespace {

using Json = nlohmann::json;

// Walks over the text and lets the handler see how far the parser has come: the library's event interface gives no
// positions, and its documents would take many times the file's size.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

struct NamedPlace {
  std::string name;
  std::size_t offset = 0;
};

struct ListedComputation {
  NamedPlace name;
  std::size_t offset = 0;  // of its opening brace
  long stage = -1;
  std::string instruction;
  long microbatch = -1;
  long chunk = 0;
};

struct Dependency {
  NamedPlace before;
  std::int32_t after = 0;
};

// Follows the parser through {"stages": N, "computations": [{...}, ...]} and refuses anything else on the spot.
class DagHandler : public nlohmann::json_sax<Json> {
 public:
  DagHandler(const std::string& source, std::string_view text) : source_(source), text_(text), seen_(text.data()) {}

  void parse() {
    Json::sax_parse(TrackedIterator(text_.data(), &seen_), TrackedIterator(text_.data() + text_.size(), &seen_), this);
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& problem, const std::string& mend) const {
    const std::string_view before = text_.substr(0, offset);
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    throw InputError({source_, line, offset - line_begin + 1}, problem, mend);
  }

  long stages = 0;
  std::size_t stages_offset = 0;
  std::vector<ListedComputation> computations;
  std::vector<Dependency> dependencies;

  bool null() override { return unexpected("null", literal_begin()); }
  bool boolean(bool) override { return unexpected("a boolean", literal_begin()); }
  bool binary(binary_t&) override { return unexpected("binary data", offset()); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected_number(text); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(kMostOperations)) return unexpected_number(std::to_string(value));
    return number(static_cast<long>(value));
  }

  bool string(string_t& text) override {
    const std::size_t begin = string_begin();
    if (place_ == Place::kAfter) {
      if (dependencies.size() >= static_cast<std::size_t>(kMostOperations)) {
        fail(begin, fmt::format("there are more than {} dependencies", kMostOperations), kTooLarge);
      }
      dependencies.push_back({{std::move(text), begin}, static_cast<std::int32_t>(computations.size())});
      return true;
    }
    if (place_ != Place::kComputation || (key_ != "name" && key_ != "instruction")) {
      return unexpected("a string", begin);
    }
    if (text.empty()) fail(begin, fmt::format("the {} is empty", key_), fmt::format("give the computation a {}", key_));
    if (key_ == "name") {
      current_.name = {std::move(text), begin};
    } else {
      current_.instruction = std::move(text);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kComputations) {
      place_ = Place::kComputation;
      current_ = {};
      current_.offset = offset() - 1;
    } else {
      return unexpected("an object", offset() - 1);
    }
    return true;
  }

  bool key(string_t& text) override {
    static const std::vector<std::string> kTopKeys = {"stages", "computations"};
    static const std::vector<std::string> kComputationKeys = {"name",       "stage", "instruction",
                                                              "microbatch", "chunk", "after"};
    const auto& known = place_ == Place::kTop ? kTopKeys : kComputationKeys;
    const auto found = std::find(known.begin(), known.end(), text);
    if (found == known.end()) {
      const std::string nearest = nearest_name(text, known);
      fail(string_begin(), fmt::format("unknown key '{}'", text),
           nearest.empty() ? fmt::format("the keys here are {}", fmt::join(known, ", "))
                           : fmt::format("did you mean '{}'?", nearest));
    }
    unsigned& stated = place_ == Place::kTop ? stated_top_ : stated_here_;
    const unsigned bit = 1u << (found - known.begin());
    if ((stated & bit) != 0) fail(string_begin(), fmt::format("key '{}' stands twice", text), "keep one of them");
    stated |= bit;
    key_ = std::move(text);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kOutside;
      return true;
    }
    place_ = Place::kComputations;
    stated_here_ = 0;
    const auto need = [&](bool given, const char* what) {
      if (given) return;
      const std::string whose = current_.name.name.empty() ? "the computation" : "'" + current_.name.name + "'";
      fail(current_.offset, fmt::format("{} has no {}", whose, what), fmt::format("add \"{}\": ...", what));
    };
    need(!current_.name.name.empty(), "name");
    need(current_.stage >= 0, "stage");
    need(!current_.instruction.empty(), "instruction");
    if (computations.size() >= static_cast<std::size_t>(kMostOperations)) {
      fail(current_.offset, fmt::format("there are more than {} computations", kMostOperations), kTooLarge);
    }
    computations.push_back(std::move(current_));
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTop && key_ == "computations") {
      place_ = Place::kComputations;
    } else if (place_ == Place::kComputation && key_ == "after") {
      place_ = Place::kAfter;
    } else {
      return unexpected("an array", offset() - 1);
    }
    return true;
  }

  bool end_array() override {
    place_ = place_ == Place::kAfter ? Place::kComputation : Place::kTop;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // The error reads "[json.exception...] parse error at line 3, column 5: what"; InputError tells the place itself.
    std::string what = error.what();
    const std::size_t column = what.find(", column ");
    const std::size_t colon = column == std::string::npos ? column : what.find(": ", column);
    if (colon != std::string::npos) what.erase(0, colon + 2);
    fail(offset() == 0 ? 0 : offset() - 1, what,
         "check the commas, quotes and brackets up to there; JSON has no comments");
  }

 private:
  enum class Place { kOutside, kTop, kComputations, kComputation, kAfter };
  static constexpr const char* kTooLarge = "check that this is the right file; no training iteration is that large";

  std::size_t offset() const { return static_cast<std::size_t>(seen_ - text_.data()); }

  // The parser has just read the closing quote; quotes inside a string are escaped.
  std::size_t string_begin() const {
    std::size_t begin = offset() < 2 ? 0 : offset() - 2;
    while (begin > 0 && (text_[begin] != '"' || text_[begin - 1] == '\\')) --begin;
    return begin;
  }

  // The parser stands behind a number or a word, or one character further.
  std::size_t literal_begin() const {
    constexpr std::string_view kEnd = " \t\r\n,:[]{}\"";
    std::size_t begin = offset();
    const auto ends = [&] { return kEnd.find(text_[begin - 1]) != std::string_view::npos; };
    while (begin > 0 && ends()) --begin;
    while (begin > 0 && !ends()) --begin;
    return begin;
  }

  bool number(long value) {
    if (place_ == Place::kTop && key_ == "stages") {
      stages_offset = literal_begin();
      stages = value;
      if (stages < 1) fail(stages_offset, fmt::format("stages is {}, it must be at least 1", value), kCountUp);
      return true;
    }
    const bool fits = place_ == Place::kComputation && (key_ == "stage" || key_ == "microbatch" || key_ == "chunk");
    if (!fits) return unexpected("a number", literal_begin());
    if (value < 0 || value > kMostOperations) {
      fail(literal_begin(), fmt::format("{} is {}, it must be from 0 to {}", key_, value, kMostOperations), kCountUp);
    }
    (key_ == "stage" ? current_.stage : key_ == "chunk" ? current_.chunk : current_.microbatch) = value;
    return true;
  }

  bool unexpected_number(const std::string& text) const {
    fail(literal_begin(), fmt::format("{} is no whole number from 0 to {}", text, kMostOperations), kCountUp);
  }

  bool unexpected(const std::string& what, std::size_t begin) const {
    switch (place_) {
      case Place::kOutside: fail(begin, "the file is " + what + ", not an object", kShape);
      case Place::kComputations: fail(begin, what + " stands among the computations", kShape);
      case Place::kAfter:
        fail(begin, what + " stands among the names in \"after\"", "list names of computations, in quotes");
      default: fail(begin, fmt::format("\"{}\" cannot be {}", key_, what), kShape);
    }
  }

  static constexpr const char* kCountUp = "write a whole number; stages, microbatches and chunks count from 0";
  static constexpr const char* kShape =
      "write {\"stages\": 2, \"computations\": [{\"name\": \"F0\", \"stage\": 0, \"instruction\": \"forward\", "
      "\"after\": []}]}";

  const std::string& source_;
  std::string_view text_;
  const char* seen_;
  Place place_ = Place::kOutside;
  std::string key_;
  unsigned stated_top_ = 0;
  unsigned stated_here_ = 0;
  ListedComputation current_;
};

class ListedDag {
 public:
  ListedDag(const std::string& source, std::string_view json, const Profile& profile)
      : source_(source), profile_(profile), list_(source, json) {
    list_.parse();
  }

  ComputationDag build() {
    check_shape();
    std::vector<Computation> nodes;
    nodes.reserve(list_.computations.size());
    std::vector<std::int32_t> last_on_stage(static_cast<std::size_t>(list_.stages), -1);
    for (const ListedComputation& listed : list_.computations) {
      const auto node = static_cast<std::int32_t>(nodes.size());
      if (!index_.try_emplace(listed.name.name, node).second) {
        list_.fail(listed.name.offset, fmt::format("the name '{}' stands twice", listed.name.name),
                   "give every computation a name of its own");
      }
      const int type = type_index(listed);
      nodes.push_back({type, static_cast<std::int32_t>(listed.microbatch), static_cast<std::int32_t>(listed.chunk)});
      if (!types_[static_cast<std::size_t>(type)].occupies_stage) continue;
      std::int32_t& last = last_on_stage[static_cast<std::size_t>(listed.stage)];
      if (last >= 0) edges_.push_back({last, node});
      last = node;
    }
    for (const Dependency& dependency : list_.dependencies) edges_.push_back({resolve(dependency), dependency.after});
    // A dependency may repeat what the stage's order says already.
    const auto ends = [](const ComputationDag::Edge& edge) { return std::pair(edge.after, edge.before); };
    std::sort(edges_.begin(), edges_.end(), [&](const auto& a, const auto& b) { return ends(a) < ends(b); });
    const auto same = [&](const auto& a, const auto& b) { return ends(a) == ends(b); };
    edges_.erase(std::unique(edges_.begin(), edges_.end(), same), edges_.end());
    check_acyclic(nodes.size());
    return {source_, static_cast<int>(list_.stages), std::move(types_), std::move(nodes), edges_};
  }

 private:
  void check_shape() const {
    if (list_.stages == 0) list_.fail(0, "the file has no \"stages\"", "add \"stages\": the number of pipeline stages");
    if (list_.stages > profile_.stages) {
      list_.fail(list_.stages_offset,
                 fmt::format("stages is {} but profile {} has {}", list_.stages, profile_.source, profile_.stages),
                 "profile every stage, or correct the number of stages");
    }
    if (list_.computations.empty()) list_.fail(0, "the file has no \"computations\"", "list at least one computation");
  }

  int type_index(const ListedComputation& listed) {
    if (listed.stage >= list_.stages) {
      list_.fail(
          listed.offset,
          fmt::format("'{}' runs on stage {}, but there are {} stages", listed.name.name, listed.stage, list_.stages),
          "count stages from 0, or correct \"stages\"");
    }
    const auto stage = static_cast<int>(listed.stage);
    const auto [entry, is_new] = type_of_.try_emplace({stage, listed.instruction}, static_cast<int>(types_.size()));
    if (!is_new) return entry->second;
    const OperationProfile* measured = profile_.find(stage, listed.instruction);
    if (measured == nullptr) {
      std::vector<std::string> known;
      for (const OperationProfile& operation : profile_.operations) {
        if (operation.stage == stage) known.push_back(operation.instruction);
      }
      list_.fail(
          listed.offset,
          fmt::format("profile {} has no '{}' for stage {}, which '{}' runs", profile_.source, listed.instruction,
                      stage, listed.name.name),
          fmt::format("profile that operation, or use one that stage {} has: {}", stage, fmt::join(known, ", ")));
    }
    types_.push_back(
        {stage, listed.instruction, measured->options, listed.instruction != kP2pName, {}, false, measured->labels});
    return entry->second;
  }

  std::int32_t resolve(const Dependency& dependency) const {
    const std::string& name = dependency.before.name;
    const auto found = index_.find(name);
    if (found == index_.end()) {
      std::vector<std::string> names;
      for (const ListedComputation& listed : list_.computations) {
        if (names.size() < 100'000) names.push_back(listed.name.name);
      }
      const std::string nearest = nearest_name(name, names);
      list_.fail(
          dependency.before.offset,
          fmt::format("'{}' is to run after '{}', which is not listed", name_of(dependency.after), name),
          nearest.empty() ? "list that computation, or remove the name" : fmt::format("did you mean '{}'?", nearest));
    }
    if (found->second == dependency.after) {
      list_.fail(dependency.before.offset, fmt::format("'{}' is to run after itself", name), "remove the name");
    }
    return found->second;
  }

  const std::string& name_of(std::int32_t node) const {
    return list_.computations[static_cast<std::size_t>(node)].name.name;
  }

  // ComputationDag refuses cycles as well, but only here are the names and places known.
  void check_acyclic(std::size_t nodes) const {
    const std::vector<std::int32_t> path = find_cycle(nodes, edges_);
    if (path.empty()) return;
    constexpr std::size_t kMostShown = 20;
    std::string cycle = "'" + name_of(path.back()) + "'";
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (i < kMostShown || i + 1 == path.size()) cycle += fmt::format(" -> '{}'", name_of(path[i]));
      if (i == kMostShown && i + 1 < path.size()) cycle += " -> ...";
    }
    list_.fail(list_.computations[static_cast<std::size_t>(path.back())].name.offset,
               fmt::format("the computations run in a cycle: {}", cycle),
               "remove one of these dependencies, or list each stage's computations in the order in which they run");
  }

  const std::string& source_;
  const Profile& profile_;
  DagHandler list_;
  std::unordered_map<std::string, std::int32_t> index_;
  std::map<std::pair<int, std::string>, int> type_of_;
  std::vector<OperationType> types_;
  std::vector<ComputationDag::Edge> edges_;
};

}  // namespace

ComputationDag read_dag(const std::string& source, std::string_view json, const Profile& profile) {
  return ListedDag(source, json, profile).build();
}

}  // namespace flyball
