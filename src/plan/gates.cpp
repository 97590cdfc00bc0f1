// Finds the gates of a DAG: operations are grouped by their sets of successors.
#include "plan/gates.h"

#include <algorithm>
#include <limits>
#include <map>

namespace flyball {
namespace {

// Longer than any window, and small enough that a sum does not overflow.
constexpr Nanoseconds kBeyond = std::numeric_limits<Nanoseconds>::max() / 2;

}  // namespace

std::vector<ClockChoices> clock_choices(const PlanProblem& problem) {
  std::vector<ClockChoices> all;
  for (std::size_t type = 0; type < problem.choices.size(); ++type) {
    const OperationType& operation = problem.dag->types()[type];
    ClockChoices choices;
    choices.option = problem.choices[type].pareto;
    for (const std::uint16_t option : choices.option) {
      choices.time.push_back(to_nanoseconds(operation.options[option].time));
      choices.net.push_back(net_joules(operation.options[option], problem.charged_blocking(operation)));
    }
    choices.fenced.push_back(-kBeyond);
    choices.fenced.insert(choices.fenced.end(), choices.time.begin(), choices.time.end());
    choices.fenced.push_back(kBeyond);
    for (std::size_t k = 1; k < choices.time.size(); ++k) {
      choices.longest_step = std::max(choices.longest_step, choices.time[k] - choices.time[k - 1]);
    }
    all.push_back(std::move(choices));
  }
  return all;
}

void GateGraph::Lists::add(std::span<const std::int32_t> list) {
  all.insert(all.end(), list.begin(), list.end());
  begin.push_back(all.size());
}

GateGraph::GateGraph(const ComputationDag& dag) {
  std::map<std::vector<std::int32_t>, Gate> gate_of_successors{{{}, kEnd}};
  std::vector<std::vector<std::int32_t>> ending(1);
  starting_.add({});
  for (std::int32_t i = 0; i < dag.size(); ++i) {
    std::vector<std::int32_t> successors(dag.successors(i).begin(), dag.successors(i).end());
    std::sort(successors.begin(), successors.end());
    const auto [found, is_new] = gate_of_successors.try_emplace(std::move(successors), ending.size());
    if (is_new) {
      ending.emplace_back();
      starting_.add(found->first);
    }
    around_.push_back({found->second, {}, false});
    ending[static_cast<std::size_t>(found->second)].push_back(i);
  }
  for (const auto& list : ending) ending_.add(list);
  for (std::int32_t i = 0; i < dag.size(); ++i) {
    std::vector<Gate> gates;
    for (const std::int32_t p : dag.predecessors(i)) gates.push_back(end_of(p));
    std::sort(gates.begin(), gates.end());
    gates.erase(std::unique(gates.begin(), gates.end()), gates.end());
    before_.add(gates);
    Around& around = around_[static_cast<std::size_t>(i)];
    around.usual = gates.size() == 1 || gates.size() == 2;
    if (around.usual) {
      around.before[0] = gates.front();
      around.before[1] = gates.back();
    }
  }
}

}  // namespace flyball
