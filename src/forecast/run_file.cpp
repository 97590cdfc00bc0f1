// Reads RUN.toml.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/median.h"
#include "base/nearest_name.h"
#include "base/toml_file.h"
#include "forecast/run_description.h"
#include "forecast/samples.h"

namespace flyball {
namespace {

constexpr std::int64_t kMostNodes = 10'000'000;
constexpr std::int64_t kMostEpochs = 10'000'000;
constexpr std::size_t kMostTypes = 1'000;
constexpr std::size_t kMostMeasurements = 100'000;
constexpr double kMostSamples = 1e15;
constexpr double kMostNodeWatts = 2e5;  // a rack; above it somebody wrote milliwatts
constexpr double kMostSpread = 0.5;
constexpr double kMostStageSeconds = 1e6;  // 12 days
constexpr Seconds kShortStage{0.01};
constexpr double kMostOverMedian = 50.0;  // a measurement above so many medians is of another unit

constexpr double kMostOverFastest = 50.0;  // likewise of two node types' iterations

constexpr double kMostIterations = 1e12;
constexpr double kMostHoursBetweenFailures = 1e9;

const std::vector<std::string> kKeys = {"name",  "samples",    "batch",      "epochs",   "iteration_seconds",
                                        "nodes", "checkpoint", "evaluation", "restarts", "all_reduce"};
const std::vector<std::string> kNodeKeys = {"name",    "count", "batch",     "measured_nodes", "spread",
                                            "power_w", "stage", "recording", "spans"};
const std::vector<std::string> kPowerKeys = {"active", "idle", "count"};
const std::vector<std::string> kStageKeys = {"seconds", "milliseconds", "minutes", "per", "active", "power_w"};

const std::vector<std::string> kCheckpointKeys = {"every", "seconds", "active"};
const std::vector<std::string> kEvaluationKeys = {"every", "per", "seconds", "active"};
const std::vector<std::string> kRestartKeys = {"node_hours_between_failures", "seconds", "active"};
const std::vector<std::string> kAllReduceKeys = {"nodes", "seconds", "milliseconds"};

struct TimeUnit {
  const char* key;
  double seconds;
};
constexpr TimeUnit kTimeUnits[] = {{"seconds", 1.0}, {"milliseconds", 1e-3}, {"minutes", 60.0}};

class RunFile final : TomlFile {
 public:
  RunFile(std::string source, std::string_view text) : TomlFile(std::move(source), text) {
    check_keys(root(), kKeys, "");
  }

  RunDescription read() {
    RunDescription run;
    if (const toml::node* node = root().get("name")) run.name = string(*node, "name");
    run.samples =
        number(need(root(), "samples", "samples = 50000 (of the data set)"), "samples", 1.0, kMostSamples, "");
    if (const toml::node* node = root().get("epochs")) run.epochs = count(*node, "epochs", kMostEpochs);
    std::optional<double> batch;
    if (const toml::node* node = root().get("batch")) batch = batch_size(*node);
    if (const toml::node* node = root().get("iteration_seconds")) {
      run.iteration = Seconds(number(*node, "iteration_seconds", 1e-9, kMostStageSeconds, "seconds"));
    }
    const toml::node& nodes = need(root(), "nodes", "a table [[nodes]] for every type of node");
    const toml::array* list = nodes.as_array();
    if (list == nullptr || list->empty()) fail(nodes, "nodes is no list of tables", "write [[nodes]], twice bracketed");
    if (list->size() > kMostTypes) fail(nodes, fmt::format("{} types of node", list->size()), "list at most 1000");
    std::set<std::string> names;
    for (const toml::node& node : *list) {
      run.node_types.push_back(node_type(node, batch));
      NodeType& type = run.node_types.back();
      if (type.name.empty()) type.name = fmt::format("node type {}", run.node_types.size());
      if (!names.insert(type.name).second) {
        throw InputError(type.where, fmt::format("the name '{}' stands twice", type.name),
                         "name each type differently");
      }
    }
    if (const toml::node* node = root().get("checkpoint")) {
      run.checkpoint = pause(table(*node, "checkpoint", "[checkpoint]"), kCheckpointKeys, "checkpoint");
      run.checkpoint->every = every(*node->as_table(), "checkpoint");
    }
    if (const toml::node* node = root().get("evaluation")) run.evaluation = evaluation(*node);
    if (const toml::node* node = root().get("restarts")) {
      const toml::table& own = table(*node, "restarts", "[restarts]");
      Restarts restarts;
      restarts.pause = pause(own, kRestartKeys, "restarts");
      const char* key = kRestartKeys.front().c_str();
      restarts.between_failures =
          Seconds(3600.0 * number(need(own, key, "node_hours_between_failures = 50000 (of one node)"), key, 1e-3,
                                  kMostHoursBetweenFailures, "hours"));
      run.restarts = std::move(restarts);
    }
    if (const toml::node* node = root().get("all_reduce")) run.all_reduces = all_reduces(*node);
    return run;
  }

 private:
  double every(const toml::table& own, const char* what) const {
    return number(need(own, "every", "every = 1000 (iterations)"), fmt::format("every of {}", what), 1.0,
                  kMostIterations, "iterations");
  }

  Pause pause(const toml::table& own, const std::vector<std::string>& keys, const char* what) const {
    check_keys(own, keys, fmt::format(" in [{}]", what));
    Pause pause;
    pause.where = at(own.source());
    pause.time = Seconds(number(need(own, "seconds", "seconds = 30"), fmt::format("seconds of {}", what), 0.0,
                                kMostStageSeconds, "seconds"));
    if (const toml::node* active = own.get("active")) pause.active = components_of(*active);
    return pause;
  }

  Pause evaluation(const toml::node& node) const {
    const toml::table& own = table(node, "evaluation", "[evaluation]");
    Pause evaluation = pause(own, kEvaluationKeys, "evaluation");
    const toml::node* per = own.get("per");
    if (per == nullptr) {
      evaluation.every = every(own, "evaluation");
      return evaluation;
    }
    if (own.get("every") != nullptr) fail(*per, "evaluation has both every and per", "leave one of them");
    if (occurrence(*per) != Occurrence::kEpoch) {
      fail(*per, "evaluation is made every so many iterations, or once an epoch",
           "write per = \"epoch\" or every = 1000");
    }
    return evaluation;
  }

  std::vector<AllReduceTime> all_reduces(const toml::node& node) const {
    const toml::table& own = table(node, "all_reduce", "[all_reduce]");
    check_keys(own, kAllReduceKeys, " in [all_reduce]");
    const toml::node& nodes = need(own, "nodes", "nodes = [2, 4, 8]");
    StageMeasurement times;
    read_times(own, "all_reduce", times);
    const toml::array* counts = nodes.as_array();
    if (counts == nullptr || counts->empty()) fail(nodes, "nodes is no list of numbers", "write nodes = [2, 4, 8]");
    if (counts->size() != times.times.size()) {
      fail(nodes, fmt::format("{} numbers of nodes and {} times", counts->size(), times.times.size()),
           "write one time for each number: milliseconds = [80, 110, 125]");
    }
    if (counts->size() > kMostTypes) fail(nodes, "too many measurements", "list at most 1000");
    std::vector<AllReduceTime> list;
    for (std::size_t k = 0; k < counts->size(); ++k) {
      const toml::node& one = *counts->get(k);
      list.push_back({count(one, "nodes of all_reduce", kMostNodes), times.times[k]});
      if (list.back().nodes < 2) fail(one, "an all-reduce on one node", "list numbers of nodes from 2");
      if (list.back().time <= Seconds(0)) fail(one, "an all-reduce that takes no time", "write what was measured");
    }
    return list;
  }

  // A name that carries another unit is answered with the place where that unit is written.
  std::string mend_of_key(const std::string& name, const std::vector<std::string>& known) const override {
    if (&known == &kStageKeys) {
      const bool time = name.starts_with("time") || name.ends_with('s') || name.starts_with("min") ||
                        name.starts_with("sec") || name.starts_with("hour") || name.starts_with("mill");
      if (time) return "write seconds = ..., milliseconds = ... or minutes = ...";
    }
    if (name.starts_with("power") || name.ends_with("_mw") || name.ends_with("_kw")) {
      return "powers are in watts, under power_w";
    }
    if (name.starts_with("iteration")) return "write iteration_seconds = ...";
    return {};
  }

  const toml::node& need(const toml::table& table, const char* key, const char* example) const {
    const toml::node* node = table.get(key);
    if (node == nullptr)
      throw InputError(at(table.source()), fmt::format("{} is missing", key), fmt::format("add {}", example));
    return *node;
  }

  const toml::table& table(const toml::node& node, const std::string& what, const std::string& example) const {
    const toml::table* value = node.as_table();
    if (value == nullptr) fail(node, fmt::format("{} is no table", what), "write for example " + example);
    return *value;
  }

  std::string string(const toml::node& node, const std::string& what) const {
    const auto* value = node.as_string();
    if (value == nullptr || value->get().empty()) {
      fail(node, fmt::format("{} is no text", what), fmt::format("write {} = \"...\"", what));
    }
    return value->get();
  }

  double batch_size(const toml::node& node) const {
    const double batch = node.value<double>().value_or(1.0);
    if (node.is_number() && batch <= 0.0) {
      fail(node, fmt::format("batch is {}: no iteration would ever end the data set", batch),
           "write the samples that one node takes in one iteration, for example batch = 64");
    }
    return number(node, "batch", 1e-9, kMostSamples, "samples");
  }

  NodeType node_type(const toml::node& node, std::optional<double> batch) const {
    const toml::table& own = table(node, "an entry of nodes", "[[nodes]]");
    check_keys(own, kNodeKeys, " in [[nodes]]");
    NodeType type;
    type.where = at(own.source());
    if (const toml::node* name = own.get("name")) type.name = string(*name, "name");
    if (const toml::node* nodes = own.get("count")) type.count = count(*nodes, "count", kMostNodes);
    if (const toml::node* nodes = own.get("measured_nodes")) {
      type.measured_nodes = count(*nodes, "measured_nodes", kMostNodes);
      if (type.measured_nodes > type.count) {
        fail(*nodes, fmt::format("{} nodes measured, of {}", type.measured_nodes, type.count),
             "write over how many of the nodes the times are the mean, or correct count");
      }
    }
    if (const toml::node* spread = own.get("spread")) {
      type.spread = number(*spread, "spread", 0.0, kMostSpread, "(a share: 0.02 is 2 %)");
    }
    if (const toml::node* size = own.get("batch")) batch = batch_size(*size);
    if (!batch) {
      throw InputError(type.where, "batch is missing",
                       "add batch = 64 (samples per node and iteration), here or at the top");
    }
    type.batch = *batch;
    if (const toml::node* file = own.get("recording")) type.recording_file = string(*file, "recording");
    if (const toml::node* file = own.get("spans")) {
      type.spans_file = string(*file, "spans");
      if (type.recording_file.empty()) fail(*file, "spans without a recording", "add recording = \"power.csv\"");
    }
    if (const toml::node* power = own.get("power_w")) read_powers(*power, type);
    if (const toml::node* stages = own.get("stage")) {
      const toml::table& list = table(*stages, "stage", "[nodes.stage.forward]");
      for (const auto& [key, value] : list) read_stage(std::string(key.str()), at(key.source()), value, type);
      for (const auto& [key, value] : list) check_outliers(*value.as_table(), std::string(key.str()), type);
    }
    set_usual_activity(type, type.has(Component::kAccelerator));
    return type;
  }

  void read_powers(const toml::node& node, NodeType& type) const {
    const toml::table& powers = table(node, "power_w", "[nodes.power_w]");
    check_keys(powers, names_of<Component>(), " in power_w");
    for (std::size_t c = 0; c < kComponents; ++c) {
      const std::string& name = names_of<Component>()[c];
      const toml::node* entry = powers.get(name);
      if (entry == nullptr) continue;
      const toml::table& values = table(*entry, name, name + " = { active = 60, idle = 15 }");
      check_keys(values, kPowerKeys, fmt::format(" in power_w.{}", name));
      double number_of = 1.0;
      if (const toml::node* many = values.get("count")) number_of = count(*many, name + ".count", 1'000'000);
      ComponentPower power;
      power.active = Watts(number_of * watts(need(values, "active", "active = 60 (watts)"), name + ".active"));
      power.idle = Watts(number_of * watts(need(values, "idle", "idle = 15 (watts)"), name + ".idle"));
      if (power.idle > power.active) {
        fail(*entry, fmt::format("{} draws {} W idle and {} W active", name, power.idle.value(), power.active.value()),
             "exchange the two, or correct them");
      }
      if (power.active.value() > kMostNodeWatts) {
        fail(*entry, fmt::format("{} draws {} W in one node", name, power.active.value()),
             "write watts, not milliwatts, of one node");
      }
      type.components[c] = power;
    }
  }

  double watts(const toml::node& node, const std::string& what) const {
    return number(node, what, 0.0, kMostNodeWatts, "watts (not milliwatts)");
  }

  void read_stage(const std::string& name, InputLocation where, const toml::node& node, NodeType& type) const {
    const auto which = value_named<TrainingStage>(name);
    if (!which) {
      const std::string nearest = nearest_name(name, names_of<TrainingStage>());
      throw InputError(std::move(where), fmt::format("unknown stage '{}'", name),
                       nearest.empty() ? fmt::format("the stages are {}", fmt::join(kNamesOf<TrainingStage>, ", "))
                                       : fmt::format("did you mean '{}'?", nearest));
    }
    StageMeasurement& stage = type.stage(*which);
    const toml::table& own = table(node, name, fmt::format("[nodes.stage.{}]", name));
    check_keys(own, kStageKeys, fmt::format(" in stage {}", name));
    stage.stated = true;
    stage.where = std::move(where);
    stage.occurrence = usual_occurrence(*which);
    if (const toml::node* per = own.get("per")) stage.occurrence = occurrence(*per);
    if (const toml::node* active = own.get("active")) {
      stage.active = components_of(*active);
      stage.active_stated = true;
    }
    if (const toml::node* powers = own.get("power_w")) {
      const toml::table& values = table(*powers, "power_w", "power_w = { processor = 40 }");
      check_keys(values, names_of<Component>(), fmt::format(" in power_w of {}", name));
      for (std::size_t c = 0; c < kComponents; ++c) {
        if (const toml::node* value = values.get(names_of<Component>()[c])) {
          stage.power[c] = Watts(watts(*value, names_of<Component>()[c]));
          if (!type.components[c]) {
            fail(*value, fmt::format("the nodes have no {}", names_of<Component>()[c]), "list it in [nodes.power_w]");
          }
        }
      }
    }
    read_times(own, name, stage);
    if (stage.times.empty() && type.spans_file.empty()) {
      throw InputError(stage.where, fmt::format("stage {} has no time", name),
                       "add seconds = 0.1, or a list of measurements");
    }
  }

  void read_times(const toml::table& own, const std::string& name, StageMeasurement& stage) const {
    const toml::node* stated = nullptr;
    for (const TimeUnit& unit : kTimeUnits) {
      const toml::node* node = own.get(unit.key);
      if (node == nullptr) continue;
      if (stated != nullptr) fail(*node, fmt::format("stage {} has its time twice", name), "leave one of them");
      stated = node;
      const auto read = [&](const toml::node& one) {
        stage.times.emplace_back(
            unit.seconds * number(one, fmt::format("{} of {}", unit.key, name), 0.0, kMostStageSeconds, unit.key));
      };
      if (const toml::array* list = node->as_array()) {
        if (list->empty())
          fail(*node, fmt::format("stage {} has an empty list of times", name), "write what was measured");
        if (list->size() > kMostMeasurements) fail(*node, "too many measurements", "give at most 100000");
        for (const toml::node& one : *list) read(one);
      } else {
        read(*node);
      }
    }
  }

  // Computing is compared with its own median. All else may wait, for a disk, the network or a node that stalls, now
  // and then for as long as whole iterations, so that a measurement of it is compared with the whole iteration.
  void check_outliers(const toml::table& own, const std::string& name, const NodeType& type) const {
    const TrainingStage which = *value_named<TrainingStage>(name);
    const StageMeasurement& stage = type.stage(which);
    if (stage.times.size() < 3) return;
    const bool computes = which == TrainingStage::kForward || which == TrainingStage::kForwardMemory ||
                          which == TrainingStage::kBackward || which == TrainingStage::kBackwardMemory ||
                          which == TrainingStage::kUpdate;
    Seconds usual(0);
    for (const StageMeasurement& one : type.stages) {
      const bool counts = computes ? &one == &stage : one.occurrence == stage.occurrence;
      if (counts && !one.times.empty()) usual += median(one.times);
    }
    // A stall of the machine may be as long as a short stage; such outliers are left to the spread.
    if (usual < kShortStage) return;
    const auto longest = std::max_element(stage.times.begin(), stage.times.end());
    if (*longest <= kMostOverMedian * usual) return;
    for (const TimeUnit& unit : kTimeUnits) {
      if (const toml::array* list = own.get_as<toml::array>(unit.key)) {
        fail(*list->get(static_cast<std::size_t>(longest - stage.times.begin())),
             fmt::format("a measurement of {} is {:.0f} times the median{}", name, *longest / usual,
                         computes ? "" : " of all stages together"),
             "write all in one unit, and leave warming up out");
      }
    }
  }

  Occurrence occurrence(const toml::node& node) const {
    const std::string name = string(node, "per");
    if (const auto known = value_named<Occurrence>(name)) return *known;
    fail(node, fmt::format("unknown per '{}'", name),
         fmt::format("write one of {}", fmt::join(kNamesOf<Occurrence>, ", ")));
  }

  PerComponent<bool> components_of(const toml::node& node) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) fail(node, "active is no list", "write active = [\"processor\", \"memory\"]");
    PerComponent<bool> active{};
    for (const toml::node& one : *list) {
      const std::string name = string(one, "active");
      const auto known = value_named<Component>(name);
      if (!known) {
        fail(one, fmt::format("unknown component '{}'", name),
             fmt::format("write of {}", fmt::join(kNamesOf<Component>, ", ")));
      }
      active[index_of(*known)] = true;
    }
    return active;
  }
};

// Guesses what somebody wrote whose stages add up to `ratio` iterations; empty if there is no guess.
std::string likely_mend(double ratio) {
  struct Guess {
    double ratio;
    const char* words;
  };
  constexpr Guess kGuesses[] = {{1.0 / 60.0, "are the stages in minutes? write minutes = ..."},
                                {1.0 / 3600.0, "are the stages in hours? write them in seconds or minutes"},
                                {1e3, "are the stages in milliseconds? write milliseconds = ..."},
                                {60.0, "is iteration_seconds in minutes? write it in seconds"},
                                {1e-3, "is iteration_seconds in milliseconds? write it in seconds"}};
  for (const Guess& guess : kGuesses) {
    if (ratio > guess.ratio / 1.5 && ratio < guess.ratio * 1.5) return guess.words;
  }
  return "correct the times or iteration_seconds; a stage of a whole epoch has per = \"epoch\"";
}

void check_iteration(const RunDescription& run) {
  Seconds longest(0);
  Seconds shortest(std::numeric_limits<double>::infinity());
  const StageMeasurement* where = nullptr;
  for (const NodeType& type : run.node_types) {
    Seconds sum(0);
    const StageMeasurement* own = nullptr;
    for (const StageMeasurement& stage : type.stages) {
      if (!stage.stated || stage.times.empty() || stage.occurrence == Occurrence::kRun) continue;
      const double a_iteration = stage.occurrence == Occurrence::kEpoch ? 1.0 / run.iterations_per_epoch() : 1.0;
      sum += a_iteration * mean_of(stage.times);
      if (own == nullptr || mean_of(stage.times) > mean_of(own->times)) own = &stage;
    }
    if (own != nullptr) shortest = std::min(shortest, sum);
    if (sum > longest) {
      longest = sum;
      where = own;
    }
  }
  if (where == nullptr) return;
  if (longest > kMostOverFastest * shortest) {
    throw InputError(where->where,
                     fmt::format("an iteration takes {:.4g} s here and {:.4g} s on other nodes, which would wait for "
                                 "most of their time",
                                 longest.value(), shortest.value()),
                     "write the times of all types in one unit");
  }
  if (!run.iteration) return;
  const double ratio = longest / *run.iteration;
  constexpr double kMostOver = 1.25;
  constexpr double kLeastShare = 0.5;
  if (ratio <= kMostOver && ratio >= kLeastShare) return;
  throw InputError(where->where,
                   fmt::format("the stages of an iteration take {:.4g} s, the iteration {:.4g} s", longest.value(),
                               run.iteration->value()),
                   likely_mend(ratio));
}

}  // namespace

std::int64_t RunDescription::nodes() const {
  return std::accumulate(node_types.begin(), node_types.end(), std::int64_t{0},
                         [](std::int64_t sum, const NodeType& type) { return sum + type.count; });
}

double RunDescription::iterations_per_epoch() const {
  double batch = 0.0;
  for (const NodeType& type : node_types) batch += type.count * type.batch;
  return samples / batch;
}

void set_usual_activity(NodeType& type, bool accelerator) {
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    const auto which = static_cast<TrainingStage>(s);
    StageMeasurement& stage = type.stages[s];
    if (!stage.stated || stage.active_stated) continue;
    stage.active = usual_activity(which, accelerator);
    // Eqs. 29-32: where reading and writing memory is measured apart, computing leaves the memory idle.
    if ((which == TrainingStage::kForward && type.stage(TrainingStage::kForwardMemory).stated) ||
        (which == TrainingStage::kBackward && type.stage(TrainingStage::kBackwardMemory).stated)) {
      stage.active[index_of(Component::kMemory)] = false;
    }
  }
}

void check_complete(const RunDescription& run) {
  const bool alone = run.nodes() == 1;
  std::size_t waits = 0;
  for (const NodeType& type : run.node_types) {
    std::vector<TrainingStage> needed = {
        TrainingStage::kSetDataset, TrainingStage::kLoadData, TrainingStage::kPreprocess, TrainingStage::kModelInOut,
        TrainingStage::kForward,    TrainingStage::kBackward, TrainingStage::kUpdate};
    if (!alone) needed.push_back(TrainingStage::kCommunication);
    if (type.has(Component::kAccelerator)) needed.push_back(TrainingStage::kTransfer);
    std::vector<std::string> missing;
    for (const TrainingStage stage : needed) {
      if (!type.stage(stage).stated) missing.emplace_back(name_of(stage));
    }
    for (const StageMeasurement& stage : type.stages) {
      if (!stage.stated || !stage.times.empty()) continue;
      throw InputError(stage.where, "the stage has no time, and no span in the recording",
                       "add seconds = ... or spans");
    }
    if (!missing.empty()) {
      throw InputError(
          type.where,
          fmt::format("no {} in '{}'{}", fmt::join(missing, ", "), type.name,
                      missing.front() == "transfer" ? ", which has an accelerator" : ""),
          fmt::format("add [nodes.stage.{}] with its measured seconds; 0 where there is none", missing.front()));
    }
    bool powered = false;
    for (std::size_t c = 0; c < kComponents; ++c) powered = powered || type.components[c].has_value();
    if (!powered) {
      throw InputError(type.where, fmt::format("no component powers in '{}'", type.name),
                       "add [nodes.power_w] with processor = { active = 60, idle = 15 }, or --calibrate POWER.csv");
    }
    waits += type.stage(TrainingStage::kWait).stated ? 1 : 0;
    PerStage<const StageMeasurement*> longest{};
    for (const StageMeasurement& stage : type.stages) {
      if (!stage.stated || stage.times.size() < 2) continue;
      const StageMeasurement*& other = longest[static_cast<std::size_t>(stage.occurrence)];
      if (other != nullptr && other->times.size() != stage.times.size()) {
        throw InputError(stage.where,
                         fmt::format("{} measurements here, {} of the stage in line {}", stage.times.size(),
                                     other->times.size(), other->where.line),
                         "measure all stages in the same iterations, or give one number, the mean");
      }
      other = &stage;
    }
    if (mean_of(type.stage(TrainingStage::kForward).times) + mean_of(type.stage(TrainingStage::kBackward).times) <=
        Seconds(0)) {
      throw InputError(type.stage(TrainingStage::kForward).where, "forward and backward take no time",
                       "write what was measured");
    }
  }
  if (waits != 0 && waits != run.node_types.size()) {
    for (const NodeType& type : run.node_types) {
      if (type.stage(TrainingStage::kWait).stated) continue;
      throw InputError(type.where, fmt::format("a measured wait in other types, none in '{}'", type.name),
                       "add [nodes.stage.wait], or leave all out: the wait then follows from the other stages");
    }
  }
  check_iteration(run);
}

RunDescription read_run(const std::string& source, std::string_view text) { return RunFile(source, text).read(); }

}  // namespace flyball
