// Orders of operations are listed once each, since most planners keep the schedule's. Columns and plans are texts with
// one character for each operation.
#include "plan/plan_set.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/json_text.h"
#include "pipeline/instruction.h"
#include "profile/option_labels.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

// Small numbers take a byte each as characters; as JSON's numbers they would take three. Surrogates stand for nothing
// by themselves and are left out.
constexpr std::uint32_t kZero = 0x28;
constexpr std::uint32_t kFirstSurrogate = 0xd800;
constexpr std::uint32_t kSurrogates = 0x800;

// Appends the character of a number, in UTF-8.
void append_number(std::string& out, std::uint32_t number) {
  std::uint32_t code = kZero + number;
  if (code >= kFirstSurrogate) code += kSurrogates;
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const unsigned followers = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<unsigned, 4> kLead = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[followers] | (code >> (6 * followers)));
  for (unsigned k = followers; k-- > 0;) out += static_cast<char>(0x80U | ((code >> (6 * k)) & 0x3fU));
}

// Operations of one type side by side, in their order: plans repeat from one microbatch to the next.
std::vector<int> by_type(const ComputationDag& dag) {
  std::vector<int> operations(at(dag.size()));
  std::iota(operations.begin(), operations.end(), 0);
  std::ranges::stable_sort(operations, {}, [&](int i) { return dag[i].type; });
  return operations;
}

// An order of operations that is listed.
struct ListedOrder {
  std::size_t place;
  std::vector<int> operations;  // by_type()
};

std::string options_text(const ClockPlan& plan, const ListedOrder& order) {
  std::string out;
  out.reserve(plan.size());
  for (const int i : order.operations) append_number(out, plan[at(i)]);
  return out;
}

Json type_json(const OperationType& type) {
  Json clocks = Json::array();
  Json times = Json::array();
  Json energies = Json::array();
  for (const ClockOption& option : type.options) {
    clocks.push_back(option.frequency.value());
    times.push_back(option.time.value());
    energies.push_back(option.energy.value());
  }
  Json json = {{"stage", type.stage},
               {"instruction", type.instruction},
               {"letters", instruction_letters(type.instruction)},
               {"is_forward", is_forward(type.instruction)},
               {"occupies_stage", type.occupies_stage},
               {"clocks_mhz", std::move(clocks)},
               {"times_s", std::move(times)},
               {"energies_j", std::move(energies)}};
  if (!type.labels.empty()) {
    Json labels = Json::array();
    for (std::size_t k = 0; k < type.options.size(); ++k) labels.push_back(label_text(type.labels.of(k)));
    json["labels"] = std::move(labels);
  }
  return json;
}

Json order_json(const ComputationDag& dag) {
  std::string types;
  std::string microbatches;
  std::string chunks;
  std::string counts;
  std::string distances;
  const auto append = [](std::string& out, int number) { append_number(out, static_cast<std::uint32_t>(number)); };
  for (int i = 0; i < dag.size(); ++i) {
    append(types, dag[i].type);
    append(microbatches, dag[i].microbatch + 1);
    append(chunks, dag[i].chunk);
    append(counts, static_cast<int>(dag.predecessors(i).size()));
    for (const std::int32_t before : dag.predecessors(i)) append(distances, i - before);
  }
  return {{"type", types}, {"microbatch", microbatches}, {"chunk", chunks}, {"waits", counts}, {"distance", distances}};
}

// The first and the last of the points, and of those between them each that is `apart` later than the one before.
std::vector<std::size_t> spaced(const Frontier& frontier, const std::vector<std::size_t>& points, Nanoseconds apart) {
  std::vector<std::size_t> kept;
  Nanoseconds next = 0;
  for (const std::size_t point : points) {
    const Nanoseconds time = frontier.points()[point].time;
    if (!kept.empty() && point != points.back() && time < next) continue;
    kept.push_back(point);
    next = time + apart;
  }
  return kept;
}

// As many of the points as `most` lets stand, but two at least where there are two, as far apart in time as that needs;
// and the selected one besides.
std::vector<std::size_t> thinned(const Frontier& frontier, const std::vector<std::size_t>& points, std::size_t most,
                                 std::optional<std::size_t> selected) {
  Nanoseconds apart = 0;
  Nanoseconds enough = frontier.points()[points.back()].time - frontier.points()[points.front()].time + 1;
  while (apart < enough) {
    const Nanoseconds middle = apart + (enough - apart) / 2;
    if (spaced(frontier, points, middle).size() > most) {
      apart = middle + 1;
    } else {
      enough = middle;
    }
  }
  std::vector<std::size_t> kept = spaced(frontier, points, apart);
  if (selected) {
    const auto place = std::lower_bound(kept.begin(), kept.end(), *selected);
    if (place == kept.end() || *place != *selected) kept.insert(place, *selected);
  }
  return kept;
}

// So many points of each curve have `most_options` operations together, where the curves have so many points.
std::size_t most_points(const PlanSet& set, const std::vector<std::vector<std::size_t>>& points,
                        std::size_t most_options) {
  const auto operations = [&](std::size_t most) {
    std::size_t sum = 0;
    for (std::size_t k = 0; k < points.size(); ++k)
      sum += std::min(points[k].size(), most) * at(set.curves[k].dag->size());
    return sum;
  };
  std::size_t most = 0;
  for (const auto& of_curve : points) most = std::max(most, of_curve.size());
  std::size_t least = 0;
  while (least < most) {
    const std::size_t middle = most - (most - least) / 2;
    if (operations(middle) > most_options) {
      most = middle - 1;
    } else {
      least = middle;
    }
  }
  return least;
}

Joules straggler_wait(const Frontier& frontier, std::size_t point, Nanoseconds until) {
  const FrontierPoint& plan = frontier.points()[point];
  return (frontier.total_blocking() + plan.waiting_above) * to_seconds(std::max<Nanoseconds>(0, until - plan.time));
}

}  // namespace

std::string plan_set_json(const PlanSet& set, std::size_t most_options) {
  std::map<const ComputationDag*, ListedOrder> orders;
  Json listed = Json::array();
  const auto order_of = [&](const ComputationDag* dag) -> const ListedOrder& {
    const auto [entry, added] = orders.try_emplace(dag, ListedOrder{orders.size(), {}});
    if (added) {
      entry->second.operations = by_type(*dag);
      listed.push_back(order_json(*dag));
    }
    return entry->second;
  };

  Json iterations = Json::array();
  for (const PlanSetIteration& one : set.iterations) {
    Json json = {{"name", one.name},
                 {"energy_j", one.energy.value()},
                 {"straggler_wait_j", one.straggler_wait.value()},
                 {"order", order_of(one.dag).place},
                 {"options", options_text(*one.plan, order_of(one.dag))}};
    const std::vector<Nanoseconds> usual = plan_durations(*one.dag, *one.plan);
    if (!std::equal(usual.begin(), usual.end(), one.durations.begin(), one.durations.end())) {
      json["durations_ns"] = std::vector<Nanoseconds>(one.durations.begin(), one.durations.end());
    }
    iterations.push_back(std::move(json));
  }

  std::vector<std::vector<std::size_t>> worthwhile;
  for (const PlanSetCurve& curve : set.curves) worthwhile.push_back(worthwhile_points(*curve.frontier));
  const std::size_t most = most_points(set, worthwhile, most_options);
  Json plans = Json::array();
  for (std::size_t k = 0; k < set.curves.size(); ++k) {
    const PlanSetCurve& curve = set.curves[k];
    const ListedOrder& order = order_of(curve.dag);
    const std::vector<std::size_t> points = thinned(*curve.frontier, worthwhile[k], most, curve.selected);
    Json shown = Json::array();
    Json selected;
    for (const std::size_t point : points) {
      if (curve.selected == point) selected = shown.size();
      shown.push_back({{"time_s", curve.frontier->time(point).value()},
                       {"energy_j", curve.frontier->energy(point).value()},
                       {"straggler_wait_j", straggler_wait(*curve.frontier, point, set.straggler_time).value()},
                       {"options", options_text(curve.frontier->plan(point), order)}});
    }
    plans.push_back({{"planner", curve.planner},
                     {"order", order.place},
                     {"points_in_all", curve.frontier->size()},
                     {"selected", std::move(selected)},
                     {"points", std::move(shown)}});
  }

  const ComputationDag& dag = *(set.curves.empty() ? set.iterations.front().dag : set.curves.front().dag);
  Json types = Json::array();
  for (const OperationType& type : dag.types()) types.push_back(type_json(type));
  Json blocking = Json::array();
  for (const Watts power : set.blocking) blocking.push_back(power.value());
  return dump_json({{"stages", dag.stages()},
                    {"blocking_w", std::move(blocking)},
                    {"types", std::move(types)},
                    {"orders", std::move(listed)},
                    {"iterations", std::move(iterations)},
                    {"plans", std::move(plans)},
                    {"not_planned", set.not_planned}});
}

}  // namespace flyball
