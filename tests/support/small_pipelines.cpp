#include "support/small_pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace flyball {

Profile profile_of_rows(std::string_view rows) {
  return read_profile("test.csv", "stage,instruction,frequency,time,energy\n" + std::string(rows));
}

Profile uniform_profile(int stages, const std::vector<Timed>& operations) {
  std::string rows;
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto& [instruction, ms] : operations)
      rows += fmt::format("{},{},1000,{}e-3,{}\n", stage, instruction, ms, ms);
  }
  return profile_of_rows(rows);
}

ComputationDag scheduled_dag(ScheduleKind kind, const Profile& profile, int microbatches, int chunks) {
  PipelineSpec spec;
  spec.schedule = kind;
  spec.microbatches = microbatches;
  spec.chunks = chunks;
  return build_dag(spec, profile);
}

Profile random_profile(std::mt19937& random, int stages, const std::vector<std::string>& instructions, int clocks) {
  std::uniform_int_distribution<int> microseconds(2'000, 20'000);
  std::uniform_int_distribution<int> percent(3, 15);
  std::string rows;
  for (int stage = 0; stage < stages; ++stage) {
    for (const std::string& instruction : instructions) {
      double time = microseconds(random) * 1e-6;
      double energy = 300.0 * time;
      for (int clock = 0; clock < clocks; ++clock) {
        rows += fmt::format("{},{},{},{:.9f},{:.9f}\n", stage, instruction, 1400 - 15 * clock, time, energy);
        time *= 1.0 + percent(random) / 100.0;
        energy *= 1.0 - percent(random) / 200.0;
      }
    }
  }
  return profile_of_rows(rows);
}

std::string show(const InstructionStream& stream) {
  std::string text;
  for (const Instruction& instruction : stream) {
    constexpr std::string_view kLetters = "FBRIW";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", kLetters[static_cast<std::size_t>(instruction.kind)],
                        instruction.microbatch);
    if (instruction.chunk > 0) text += fmt::format("/{}", instruction.chunk);
  }
  return text;
}

std::string show(const ComputationDag& dag, const Timeline& timeline, Nanoseconds slot) {
  std::string text;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    std::string line(static_cast<std::size_t>(timeline.makespan / slot), '.');
    for (const int i : dag.stage_order(stage)) {
      const std::string& name = dag.type_of(i).instruction;
      char mark = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
      if (name == "forward") mark = static_cast<char>('0' + dag[i].microbatch);
      if (name == "backward") mark = static_cast<char>('a' + dag[i].microbatch);
      const auto node = static_cast<std::size_t>(i);
      for (Nanoseconds t = timeline.start[node]; t < timeline.finish[node]; t += slot) {
        line[static_cast<std::size_t>(t / slot)] = mark;
      }
    }
    text += line + "\n";
  }
  return text;
}

Nanoseconds slow_makespan(const ComputationDag& dag, const std::vector<Nanoseconds>& durations) {
  std::vector<Nanoseconds> finish = durations;
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = dag.size() - 1; i >= 0; --i) {
      for (const int s : dag.successors(i)) {
        const Nanoseconds later = finish[static_cast<std::size_t>(i)] + durations[static_cast<std::size_t>(s)];
        if (later <= finish[static_cast<std::size_t>(s)]) continue;
        finish[static_cast<std::size_t>(s)] = later;
        changed = true;
      }
    }
  }
  return finish.empty() ? 0 : *std::max_element(finish.begin(), finish.end());
}

ClockPlan same_clock_plan(const ComputationDag& dag, std::size_t option) {
  ClockPlan plan;
  for (int i = 0; i < dag.size(); ++i) {
    plan.push_back(static_cast<std::uint16_t>(std::min(option, dag.type_of(i).options.size() - 1)));
  }
  return plan;
}

}  // namespace flyball
