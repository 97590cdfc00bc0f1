// The writer puts out text row by row, with the shortest numbers that read back the same. The reader walks the parsed
// document through Value, which knows its path for error messages (decision 40 says why the file is no described
// record).
#include "plan/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "plan/stage_clock.h"

namespace flyball {
namespace {

// Whether clocks alone may not tell which options a plan takes.
bool has_labels(const ComputationDag& dag) {
  const auto types = dag.types();
  return std::any_of(types.begin(), types.end(), [](const OperationType& type) { return !type.labels.empty(); });
}

std::string quoted(const std::string& text) { return dump_json(text); }

std::string number_or_null(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

const ClockOption& option_at(const ComputationDag& dag, const ClockPlan& plan, int i) {
  return dag.type_of(i).options[plan[static_cast<std::size_t>(i)]];
}

// A list of pairs, not an object: the order is that of the profile's columns.
void append_labels(std::string& out, const OptionLabels& labels) {
  out += ", \"labels\": [";
  for (std::size_t k = 0; k < labels.size(); ++k) {
    fmt::format_to(std::back_inserter(out), "{}[{}, {}]", k == 0 ? "" : ", ", quoted(labels[k].name),
                   quoted(labels[k].value));
  }
  out += ']';
}

void append_type(std::string& out, const OperationType& type) {
  fmt::format_to(std::back_inserter(out),
                 "{{\"stage\": {}, \"instruction\": {}, \"occupies_stage\": {}, {}\"options\": [", type.stage,
                 quoted(type.instruction), type.occupies_stage, type.waits ? "\"waits\": true, " : "");
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    const ClockOption& option = type.options[k];
    fmt::format_to(std::back_inserter(out), "{}{{\"clock_mhz\": {}, \"time_s\": {}, \"energy_j\": {}",
                   k == 0 ? "" : ", ", option.frequency.value(), option.time.value(), option.energy.value());
    if (!type.waiting_above.empty()) {
      fmt::format_to(std::back_inserter(out), ", \"waiting_above_w\": {}", type.waiting_above[k].value());
    }
    if (const OptionLabels& labels = type.labels.of(k); !labels.empty()) append_labels(out, labels);
    out += '}';
  }
  out += "]}";
}

void append_operation(std::string& out, const ComputationDag& dag, int i) {
  const OperationType& type = dag.type_of(i);
  fmt::format_to(std::back_inserter(out), "{{\"stage\": {}, \"instruction\": {}", type.stage, quoted(type.instruction));
  if (dag[i].microbatch >= 0) fmt::format_to(std::back_inserter(out), ", \"microbatch\": {}", dag[i].microbatch);
  if (dag[i].chunk > 0) fmt::format_to(std::back_inserter(out), ", \"chunk\": {}", dag[i].chunk);
  fmt::format_to(std::back_inserter(out), ", \"after\": [{}]}}", fmt::join(dag.predecessors(i), ","));
}

void append_clocks(std::string& out, const ComputationDag& dag, const ClockPlan& plan) {
  out += "\"clocks_mhz\": [";
  for (int i = 0; i < dag.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", option_at(dag, plan, i).frequency.value());
  }
  out += ']';
  if (!has_labels(dag)) return;
  fmt::format_to(std::back_inserter(out), ", \"options\": [{}]", fmt::join(plan, ","));
}

void append_edits(std::string& out, const ComputationDag& dag, const ClockPlan& before, const ClockPlan& plan) {
  out += "\"edits\": [";
  const bool labelled = has_labels(dag);
  bool first = true;
  for (int i = 0; i < dag.size(); ++i) {
    if (before[static_cast<std::size_t>(i)] == plan[static_cast<std::size_t>(i)]) continue;
    fmt::format_to(std::back_inserter(out), "{}[{},{}", first ? "" : ",", i, option_at(dag, plan, i).frequency.value());
    if (labelled) fmt::format_to(std::back_inserter(out), ",{}", plan[static_cast<std::size_t>(i)]);
    out += ']';
    first = false;
  }
  out += ']';
}

// A value of the document and its path, for messages. Parents must outlive their children.
class Value {
 public:
  Value(const std::string& source, const nlohmann::json& json) : source_(source), json_(json) {}

  [[nodiscard]] bool has(const std::string& key) const { return json_.is_object() && json_.contains(key); }

  [[nodiscard]] Value at(const std::string& key) const {
    if (!json_.is_object()) fail("this is no object", "write {...}");
    const auto found = json_.find(key);
    if (found == json_.end()) fail(fmt::format("'{}' is missing", key), "see docs/formats/plan.md");
    return {*this, *found, key, 0};
  }
  [[nodiscard]] Value at(std::size_t index) const { return {*this, json_[index], "", index}; }

  [[nodiscard]] std::size_t array_size() const {
    if (!json_.is_array()) fail("this is no array", "write [...]");
    return json_.size();
  }
  [[nodiscard]] std::string text() const {
    if (!json_.is_string()) fail("this is no string", "write it in double quotes");
    return json_.get<std::string>();
  }
  [[nodiscard]] bool boolean() const {
    if (!json_.is_boolean()) fail("this is neither true nor false", "write true or false");
    return json_.get<bool>();
  }
  [[nodiscard]] bool is_null() const { return json_.is_null(); }
  [[nodiscard]] double number(double least, double most) const {
    if (!json_.is_number()) fail("this is no number", "write a number");
    const double value = json_.get<double>();
    if (!(value >= least && value <= most)) {
      fail(fmt::format("{} is out of range", value), fmt::format("write a number from {} to {}", least, most));
    }
    return value;
  }
  [[nodiscard]] std::int32_t index(std::size_t count, const char* of_what) const {
    if (!json_.is_number_integer() || json_.get<double>() < 0.0 || json_.get<double>() >= static_cast<double>(count)) {
      fail(fmt::format("there is no such {}", of_what), fmt::format("write a whole number from 0, below {}", count));
    }
    return json_.get<std::int32_t>();
  }

  [[nodiscard]] const std::string& source() const { return source_; }

  [[noreturn]] void fail(const std::string& problem, const std::string& mend) const {
    const std::string where = path();
    throw InputError({source_}, where.empty() ? problem : fmt::format("{}: {}", where, problem), mend);
  }

 private:
  Value(const Value& parent, const nlohmann::json& json, std::string key, std::size_t index)
      : source_(parent.source_), json_(json), parent_(&parent), key_(std::move(key)), index_(index) {}

  [[nodiscard]] std::string path() const {
    if (parent_ == nullptr) return "";
    const std::string before = parent_->path();
    if (key_.empty()) return fmt::format("{}[{}]", before, index_);
    return before.empty() ? key_ : fmt::format("{}.{}", before, key_);
  }

  const std::string& source_;
  const nlohmann::json& json_;
  const Value* parent_ = nullptr;
  std::string key_;
  std::size_t index_ = 0;
};

constexpr double kLargest = 1e9;  // beyond any meaningful number of seconds, joules, watts or megahertz
constexpr std::size_t kIndexLimit = 0x7fffffff;
constexpr std::size_t kOptionLimit = 0xffff;

class PlanReader {
 public:
  explicit PlanReader(const Value& root) : root_(root) {}

  PlanFile read() {
    if (root_.at("format").text() != "flyball-plan" || root_.at("version").number(0, kLargest) != 1.0) {
      root_.fail("this is no plan of format flyball-plan, version 1", "give the plan.json that flyball plan wrote");
    }
    read_stages();
    read_types();
    ComputationDag dag = read_operations();
    Frontier frontier = read_points(dag);
    PlanFileHeader header{root_.at("planner").text(), root_.at("source").text(), root_.at("schedule").text(), {}};
    if (const Value selected = root_.at("selected"); !selected.is_null()) {
      header.selected = static_cast<std::size_t>(selected.index(frontier.size(), "point"));
    }
    return {std::move(header), std::move(dag), std::move(blocking_), std::move(frontier)};
  }

 private:
  using ClockIndex = std::map<double, std::vector<std::uint16_t>>;  // the options of each clock

  void read_stages() {
    const Value blocking = root_.at("blocking_w");
    const std::size_t count = blocking.array_size();
    for (std::size_t k = 0; k < count; ++k) blocking_.emplace_back(blocking.at(k).number(0.0, kLargest));
    if (count == 0 || root_.at("stages").number(0, kLargest) != static_cast<double>(count)) {
      blocking.fail(fmt::format("{} powers, but 'stages' says otherwise", count), "give one power per stage, in W");
    }
  }

  void read_types() {
    const Value types = root_.at("types");
    const std::size_t count = types.array_size();
    for (std::size_t k = 0; k < count; ++k) {
      const Value value = types.at(k);
      OperationType type;
      type.stage = value.at("stage").index(blocking_.size(), "stage");
      type.instruction = value.at("instruction").text();
      type.occupies_stage = value.at("occupies_stage").boolean();
      type.waits = value.has("waits") && value.at("waits").boolean();
      const Value options = value.at("options");
      const std::size_t option_count = options.array_size();
      if (option_count == 0 || option_count > kOptionLimit) {
        options.fail(fmt::format("{} options", option_count), "give at least one, at most 65,535");
      }
      ClockIndex clocks;
      std::vector<OptionLabels> labels;
      std::set<std::pair<double, OptionLabels>> seen;
      for (std::size_t j = 0; j < option_count; ++j) {
        const Value option = options.at(j);
        type.options.push_back({Megahertz(option.at("clock_mhz").number(0.0, kLargest)),
                                Seconds(option.at("time_s").number(0.0, kLargest)),
                                Joules(option.at("energy_j").number(0.0, kLargest))});
        if (option.has("waiting_above_w")) {
          type.waiting_above.emplace_back(option.at("waiting_above_w").number(0.0, kLargest));
        }
        labels.push_back(option.has("labels") ? read_labels(option.at("labels")) : OptionLabels());
        const double clock = type.options.back().frequency.value();
        if (!seen.emplace(clock, labels.back()).second) {
          option.fail("this clock stands twice", "keep one option per clock, or give them different labels");
        }
        clocks[clock].push_back(static_cast<std::uint16_t>(j));
      }
      type.labels = LabelTable(labels);
      if (!type.waiting_above.empty() && (type.waiting_above.size() != option_count || !type.occupies_stage)) {
        options.fail("waiting_above_w is not for these options",
                     "give it to all of them or to none, and to none of a type that does not occupy its stage");
      }
      if (!type_of_.try_emplace({type.stage, type.instruction}, static_cast<std::int32_t>(k)).second) {
        value.fail(fmt::format("stage {} has '{}' twice", type.stage, type.instruction), "keep one type of them");
      }
      slowest_.push_back(std::max_element(type.options.begin(), type.options.end(), [](const auto& a, const auto& b) {
                           return a.time < b.time;
                         })->time);
      types_.push_back(std::move(type));
      clocks_.push_back(std::move(clocks));
    }
  }

  static ClocksAsked clocks_asked(const Value& value) {
    const auto asked = value_named<ClocksAsked>(value.text());
    if (!asked) {
      value.fail("no engine asks for clocks then",
                 fmt::format("write \"{}\"", fmt::join(names_of<ClocksAsked>(), "\" or \"")));
    }
    return *asked;
  }

  static OptionLabels read_labels(const Value& value) {
    OptionLabels labels;
    const std::size_t count = value.array_size();
    for (std::size_t k = 0; k < count; ++k) {
      const Value pair = value.at(k);
      if (pair.array_size() != 2) pair.fail("this is no pair", "write [name, value]");
      labels.push_back({pair.at(std::size_t{0}).text(), pair.at(std::size_t{1}).text()});
      if (labels.back().name.empty() || labels.back().value.empty()) {
        pair.fail("a label has a name and a value", "write both, or leave the label out");
      }
    }
    return labels;
  }

  ComputationDag read_operations() {
    const Value operations = root_.at("operations");
    const std::size_t count = operations.array_size();
    if (count == 0 || count > kIndexLimit) operations.fail("there is no operation", "list at least one");
    std::vector<Computation> computations;
    std::vector<ComputationDag::Edge> edges;
    for (std::size_t k = 0; k < count; ++k) {
      const Value value = operations.at(k);
      const std::int32_t stage = value.at("stage").index(blocking_.size(), "stage");
      const std::string instruction = value.at("instruction").text();
      const auto type = type_of_.find({stage, instruction});
      if (type == type_of_.end()) {
        value.fail(fmt::format("'types' has no '{}' of stage {}", instruction, stage), "add it to 'types'");
      }
      Computation computation{type->second, -1, 0};
      if (value.has("microbatch")) computation.microbatch = value.at("microbatch").index(kIndexLimit, "microbatch");
      if (value.has("chunk")) computation.chunk = value.at("chunk").index(kIndexLimit, "chunk");
      computations.push_back(computation);
      const Value after = value.at("after");
      const std::size_t before_count = after.array_size();
      for (std::size_t j = 0; j < before_count; ++j) {
        edges.push_back({after.at(j).index(count, "operation"), static_cast<std::int32_t>(k)});
      }
    }
    file_types_.reserve(count);
    Seconds longest;
    for (const Computation& computation : computations) {
      file_types_.push_back(computation.type);
      longest += slowest_[static_cast<std::size_t>(computation.type)];
    }
    // Longer times would overflow nanoseconds on some path.
    if (longest.value() > kLargest) operations.fail("they take more than 1e9 s in all", "check the times of 'types'");
    ComputationDag dag(root_.source(), static_cast<int>(blocking_.size()), types_, std::move(computations), edges);
    for (int i = 0; i < dag.size(); ++i) {
      if (!dag.type_of(i).occupies_stage && dag.predecessors(i).size() + dag.successors(i).size() > 2) {
        dag.set_transfers_occupy_both();
      }
    }
    if (root_.has("clocks_asked")) dag.set_clocks_asked(clocks_asked(root_.at("clocks_asked")));
    return dag;
  }

  // `index` is the option's own number, where the file has it.
  std::uint16_t option_of(const Value& clock, const std::optional<Value>& index, std::size_t operation) const {
    const ClockIndex& clocks = clocks_[static_cast<std::size_t>(file_types_[operation])];
    const auto found = clocks.find(clock.number(0.0, kLargest));
    if (found == clocks.end())
      clock.fail("the operation has no such clock", "choose one of its type's options, in MHz");
    const std::vector<std::uint16_t>& options = found->second;
    if (!index) {
      if (options.size() > 1) {
        clock.fail("several options have this clock",
                   "say which: list \"options\" in the first point, and write [operation, clock, option] in edits");
      }
      return options.front();
    }
    const auto option = static_cast<std::uint16_t>(index->index(kOptionLimit, "option"));
    if (std::find(options.begin(), options.end(), option) == options.end()) {
      index->fail("this is no option of that clock", "write its place in the type's options, from 0");
    }
    return option;
  }

  Frontier read_points(const ComputationDag& dag) {
    Watts total;
    for (const Watts power : blocking_) total += power;
    Frontier frontier(total);
    const Value points = root_.at("points");
    const std::size_t count = points.array_size();
    if (count == 0) points.fail("there is no point", "list at least one");
    // `listed` is in the file's order of operations, `plan` in the DAG's, which may number them differently.
    std::vector<std::uint16_t> listed(file_types_.size());
    ClockPlan plan(file_types_.size());
    for (std::size_t k = 0; k < count; ++k) {
      const Value value = points.at(k);
      if (k == 0) {
        const Value clocks = value.at("clocks_mhz");
        if (clocks.array_size() != listed.size()) {
          clocks.fail(fmt::format("{} clocks for {} operations", clocks.array_size(), listed.size()),
                      "give one clock per operation, in MHz");
        }
        const auto options = value.has("options") ? std::optional(value.at("options")) : std::nullopt;
        if (options && options->array_size() != listed.size()) {
          options->fail(fmt::format("{} options for {} operations", options->array_size(), listed.size()),
                        "give one option per operation, by its place in the type's options");
        }
        for (std::size_t i = 0; i < listed.size(); ++i) {
          listed[i] = option_of(clocks.at(i), options ? std::optional(options->at(i)) : std::nullopt, i);
        }
      } else {
        const Value edits = value.at("edits");
        const std::size_t edit_count = edits.array_size();
        for (std::size_t j = 0; j < edit_count; ++j) {
          const Value edit = edits.at(j);
          const std::size_t length = edit.array_size();
          if (length != 2 && length != 3) {
            edit.fail("this is no pair", "write [operation, clock in MHz], and an option where labels make several");
          }
          const auto operation = static_cast<std::size_t>(edit.at(std::size_t{0}).index(listed.size(), "operation"));
          const auto index = length == 3 ? std::optional(edit.at(std::size_t{2})) : std::nullopt;
          listed[operation] = option_of(edit.at(std::size_t{1}), index, operation);
        }
      }
      for (int i = 0; i < dag.size(); ++i) {
        plan[static_cast<std::size_t>(i)] = listed[static_cast<std::size_t>(dag.original_index(i))];
      }
      FrontierPoint point;
      point.waiting_above = sum_of(waiting_above(dag, plan)).after;
      point.time = to_nanoseconds(Seconds(value.at("time_s").number(0.0, kLargest)));
      const Joules idle = total * to_seconds(point.time);
      point.net_joules = value.at("energy_j").number(0.0, kLargest) - idle.value();
      if (const Value bound = value.at("lower_bound_j"); !bound.is_null()) {
        point.net_lower_bound = bound.number(0.0, kLargest) - idle.value();
      }
      // The file's energies are rounded to doubles, and a net energy is the difference of two of them.
      const double rounding = 1e-12 * value.at("energy_j").number(0.0, kLargest);
      if (k > 0 && (point.time <= frontier.points().back().time ||
                    point.net_joules >= frontier.points().back().net_joules + rounding)) {
        value.fail("the point is no better than the one before",
                   "list points in rising time and falling energy net of blocking");
      }
      frontier.add(point, plan);
    }
    return frontier;
  }

  const Value& root_;
  std::vector<Watts> blocking_;
  std::vector<OperationType> types_;
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> type_of_;
  std::vector<ClockIndex> clocks_;        // by type
  std::vector<Seconds> slowest_;          // by type: the time of its slowest option
  std::vector<std::int32_t> file_types_;  // by operation, in the file's order
};

}  // namespace

std::string write_plan_json(const PlanFileHeader& header, const ComputationDag& dag, const std::vector<Watts>& blocking,
                            const Frontier& frontier) {
  std::set<std::pair<int, std::string>> seen;
  for (const OperationType& type : dag.types()) {
    if (!seen.insert({type.stage, type.instruction}).second) {
      throw Error(fmt::format("two operation types of stage {} are called '{}'", type.stage, type.instruction));
    }
  }
  std::string out = "{\n\"format\": \"flyball-plan\",\n\"version\": 1,\n";
  fmt::format_to(std::back_inserter(out), "\"planner\": {},\n\"source\": {},\n\"schedule\": {},\n\"stages\": {},\n",
                 quoted(header.planner), quoted(header.source), quoted(header.schedule), dag.stages());
  out += "\"blocking_w\": [";
  for (std::size_t k = 0; k < blocking.size(); ++k) {
    fmt::format_to(std::back_inserter(out), "{}{}", k == 0 ? "" : ", ", blocking[k].value());
  }
  out += "],\n";
  if (!waits_alike(dag) && dag.clocks_asked() != ClocksAsked::kAtBegin) {
    fmt::format_to(std::back_inserter(out), "\"clocks_asked\": \"{}\",\n", name_of(dag.clocks_asked()));
  }
  fmt::format_to(std::back_inserter(out), "\"selected\": {},\n",
                 header.selected ? fmt::to_string(*header.selected) : "null");

  out += "\"types\": [\n";
  for (std::size_t k = 0; k < dag.types().size(); ++k) {
    append_type(out, dag.types()[k]);
    out += k + 1 < dag.types().size() ? ",\n" : "\n";
  }
  out += "],\n\"operations\": [\n";
  for (int i = 0; i < dag.size(); ++i) {
    append_operation(out, dag, i);
    out += i + 1 < dag.size() ? ",\n" : "\n";
  }
  out += "],\n\"points\": [\n";
  ClockPlan before;
  for (std::size_t k = 0; k < frontier.size(); ++k) {
    ClockPlan plan = frontier.plan(k);
    fmt::format_to(std::back_inserter(out), "{{\"time_s\": {}, \"energy_j\": {}, \"lower_bound_j\": {}, ",
                   frontier.time(k).value(), frontier.energy(k).value(),
                   number_or_null(frontier.lower_bound(k).value()));
    if (k == 0)
      append_clocks(out, dag, plan);
    else
      append_edits(out, dag, before, plan);
    out += k + 1 < frontier.size() ? "},\n" : "}\n";
    before = std::move(plan);
  }
  return out + "]\n}\n";
}

PlanFile read_plan_json(const std::string& source, std::string_view text) {
  const nlohmann::json json = parse_json(source, text, "write the file anew, or compare it with docs/formats/plan.md");
  const Value root(source, json);
  return PlanReader(root).read();
}

PlanFile read_plan_file(const std::filesystem::path& path) {
  return read_plan_json(path.string(), read_text_file(path));
}

}  // namespace flyball
