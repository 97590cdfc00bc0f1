#include "plan/gates.h"

#include <algorithm>
#include <map>

namespace flyball {

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
    choices.mean_step = (choices.time.back() - choices.time.front()) / std::max(1, choices.slowest());
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
    end_of_.push_back(found->second);
    ending[static_cast<std::size_t>(found->second)].push_back(i);
  }
  for (const auto& list : ending) ending_.add(list);
  for (std::int32_t i = 0; i < dag.size(); ++i) {
    std::vector<Gate> gates;
    for (const std::int32_t p : dag.predecessors(i)) gates.push_back(end_of(p));
    std::sort(gates.begin(), gates.end());
    gates.erase(std::unique(gates.begin(), gates.end()), gates.end());
    before_.add(gates);
  }
}

}  // namespace flyball
