// The draft is written as text, line by line, since its comments matter as much as its values.
#include "forecast/run_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "forecast/pytorch_steps.h"
#include "forecast/recording.h"
#include "forecast/run_description.h"
#include "forecast/stage.h"
#include "profile/profile.h"
#include "trace/byte_source.h"

namespace flyball {
namespace {

constexpr TrainingStage kListed[] = {
    TrainingStage::kSetDataset, TrainingStage::kLoadData, TrainingStage::kPreprocess, TrainingStage::kTransfer,
    TrainingStage::kModelInOut, TrainingStage::kForward,  TrainingStage::kBackward,   TrainingStage::kCommunication,
    TrainingStage::kUpdate,     TrainingStage::kWait};

std::string_view explanation(TrainingStage stage) {
  switch (stage) {
    case TrainingStage::kSetDataset: return "indexing the node's share of the data set, once a run";
    case TrainingStage::kLoadData: return "one batch from disk to memory";
    case TrainingStage::kPreprocess: return "preparing one batch; 0 where the loader's processes hide it";
    case TrainingStage::kTransfer: return "one batch to the accelerator";
    case TrainingStage::kModelInOut: return "loading the model and saving it at the end, once a run";
    case TrainingStage::kForward:
    case TrainingStage::kBackward: return "one batch";
    case TrainingStage::kCommunication: return "the gradients' all-reduce, without waiting for slower nodes";
    case TrainingStage::kUpdate: return "the optimizer's step";
    case TrainingStage::kWait: return "for slower nodes, before the all-reduce";
    default: return "";
  }
}

std::string time_list(const std::vector<Seconds>& times) {
  std::string list;
  for (const Seconds time : times) list += fmt::format("{}{:.6g}", list.empty() ? "" : ", ", time.value());
  return times.size() == 1 ? list : "[" + list + "]";
}

constexpr std::string_view kHead =
    "# What a training run will cost: flyball forecast THIS_FILE. Every key: docs/formats/run.md.\n"
    "# Lines marked CHANGE hold a guess; the others were measured.\n"
    "name = \"my run\"  # CHANGE\n"
    "samples = 50000  # CHANGE: in the data set\n"
    "epochs = 1  # CHANGE\n";
constexpr std::string_view kNoIteration =
    "# iteration_seconds = 0.5  # CHANGE: an iteration by a clock on the wall, which the stages are checked against\n";

// What init knows of one type of node.
struct Known {
  std::string name = "node";
  int count = 1;
  std::size_t measured_nodes = 1;
  bool accelerator = false;
  PerComponent<std::optional<ComponentPower>> powers;
  PerStage<std::vector<Seconds>> times;
  PerStage<std::string> doubts;  // comments on what is uncertain of a measured time
  PerStage<std::optional<Watts>> accelerator_power;
  bool accelerator_idle_guessed = false;
  std::string batch = "samples of one node in one iteration";
};

std::string powers_text(const Known& known) {
  std::string text = "[nodes.power_w]  # of one node, all its devices of a kind together\n";
  const PerComponent<ComponentPower> guesses = {ComponentPower{Watts(120), Watts(40)},
                                                {Watts(300), Watts(60)},
                                                {Watts(40), Watts(15)},
                                                {Watts(8), Watts(5)},
                                                {Watts(15), Watts(10)}};
  for (std::size_t c = 0; c < kComponents; ++c) {
    const bool measured = known.powers[c].has_value();
    if (static_cast<Component>(c) == Component::kAccelerator && !known.accelerator && !measured) continue;
    const ComponentPower& power = measured ? *known.powers[c] : guesses[c];
    text += fmt::format("{} = {{ active = {:.5g}, idle = {:.5g} }}{}\n", kNamesOf<Component>[c], power.active.value(),
                        power.idle.value(),
                        !measured ? "  # CHANGE"
                        : known.accelerator_idle_guessed && static_cast<Component>(c) == Component::kAccelerator
                            ? "  # CHANGE: idle"
                            : "");
  }
  return text + "\n";
}

std::string node_text(const Known& known) {
  std::string text = fmt::format("\n[[nodes]]\nname = \"{}\"\ncount = {}\nbatch = 64  # CHANGE: {}\n", known.name,
                                 known.count, known.batch);
  if (known.measured_nodes > 1) {
    text += fmt::format("measured_nodes = {}  # times are means over so many\n", known.measured_nodes);
  }
  text += '\n';
  text += powers_text(known);
  for (const TrainingStage stage : kListed) {
    if (stage == TrainingStage::kTransfer && !known.accelerator) continue;
    const std::vector<Seconds>& times = known.times[index_of(stage)];
    if (stage == TrainingStage::kWait && times.empty()) continue;  // it follows from the other stages
    text += fmt::format("[nodes.stage.{}]  # {}\n", name_of(stage), explanation(stage));
    text += times.empty() ? "seconds = 0.0  # CHANGE\n"
                          : fmt::format("seconds = {}{}\n", time_list(times), known.doubts[index_of(stage)]);
    if (const auto power = known.accelerator_power[index_of(stage)]) {
      text += fmt::format("power_w = {{ accelerator = {:.5g} }}\n", power->value());
    }
    text += '\n';
  }
  return text;
}

// What the client's online profiler saw at the highest clock, per pipeline stage.
std::vector<Known> from_profile(const Profile& profile, int microbatches) {
  std::vector<Known> stages;
  for (int s = 0; s < profile.stages; ++s) {
    Known known;
    known.name = fmt::format("stage {}", s);
    known.accelerator = true;
    ComponentPower power{Watts(0), Watts(60)};
    for (const auto& [instruction, which] :
         {std::pair{"forward", TrainingStage::kForward}, std::pair{"backward", TrainingStage::kBackward}}) {
      const OperationProfile* operation = profile.find(s, instruction);
      if (operation == nullptr) {
        throw InputError({profile.source}, fmt::format("stage {} has no {}", s, instruction),
                         "measure both; the profile of a pipeline trainer has them");
      }
      const ClockOption& fastest = operation->options.front();
      known.times[index_of(which)] = {microbatches * fastest.time};
      known.accelerator_power[index_of(which)] = fastest.energy / fastest.time;
      power.active = std::max(power.active, fastest.energy / fastest.time);
    }
    power.idle = std::min(power.idle, power.active);
    known.powers[index_of(Component::kAccelerator)] = power;
    known.accelerator_idle_guessed = true;
    known.batch = fmt::format("samples of a pipeline in one iteration, divided by its {} stages", profile.stages);
    stages.push_back(std::move(known));
  }
  return stages;
}

// If traces of several ranks do not say how many ranks there were, they are taken for all of them.
bool misses_ranks(const TracedSteps& traced) {
  return traced.ranks == 1 || traced.world_size > static_cast<long>(traced.ranks);
}

// If not all ranks of a run were traced, nobody knows how much of the communication was waiting for the others. A model
// that adds that wait would charge it twice, so that the draft states that it is contained.
void note_missing_ranks(const TracedSteps& traced, int nodes, Known& known) {
  const std::size_t communication = index_of(TrainingStage::kCommunication);
  const std::size_t wait = index_of(TrainingStage::kWait);
  if (!traced.communication) {
    known.times[communication].clear();
    known.times[wait].clear();
    return;
  }
  if (!misses_ranks(traced)) return;
  known.doubts[communication] =
      fmt::format("  # CHANGE: {}; the wait for slower ranks is in it. Give --trace once for every rank",
                  traced.world_size > 1 ? fmt::format("traces of {} of {} ranks", traced.ranks, traced.world_size)
                                        : "one rank's trace");
  known.doubts[wait] = traced.ranks > 1 ? "  # CHANGE: more of it is in communication, above"
                                        : "  # CHANGE: not told apart from communication, above";
  if (traced.world_size > 1 && nodes > traced.world_size) {
    known.doubts[wait] += fmt::format("; of {} ranks, {} nodes wait longer", traced.world_size, nodes);
  }
  if (traced.ranks == 1) known.times[wait] = {Seconds(0)};
}

TracedSteps read_ranks(const std::vector<std::string>& files, int nodes) {
  std::vector<TracedSteps> ranks;
  for (const std::string& file : files) {
    ByteSource bytes(file);
    ranks.push_back(read_pytorch_steps(bytes));
  }
  TracedSteps traced = steps_of_ranks(files, ranks);
  const bool wait_holds = misses_ranks(traced) || nodes <= static_cast<int>(traced.ranks);
  if (traced.communication && wait_holds) return traced;
  return steps_of_ranks(files, std::move(ranks), RankTimes::kEach);
}

}  // namespace

std::string draft_run(const DraftSources& sources) {
  std::vector<Known> nodes(1);
  std::string origin;
  std::string iteration(kNoIteration);
  int count = sources.nodes;
  if (!sources.traces.empty()) {
    const TracedSteps traced = read_ranks(sources.traces, count);
    const int ranks = static_cast<int>(traced.ranks);
    count = std::max(count, ranks);
    const bool each = traced.ranks > 1 && traced.times[index_of(TrainingStage::kWait)].empty();
    nodes.front().measured_nodes = each ? 1 : traced.ranks;
    nodes.front().accelerator = traced.accelerator;
    nodes.front().times = traced.times;
    note_missing_ranks(traced, count, nodes.front());
    const Seconds whole = std::accumulate(traced.iterations.begin(), traced.iterations.end(), Seconds(0));
    iteration =
        fmt::format("iteration_seconds = {:.6g}  # {}the stages are checked against it\n",
                    whole.value() / static_cast<double>(traced.iterations.size()), each ? "without the wait; " : "");
    origin = fmt::format("# Stage times: {} steps of {}.\n", traced.steps, fmt::join(sources.traces, ", "));
    if (traced.ranks > 1) {
      origin +=
          "# Communication is each step's shortest of all ranks: the transfer. What it took longer on the others is\n"
          "# their wait.\n";
    }
    if (each) {
      origin += fmt::format(
          "# The {} ranks' steps stand one rank after the other, without that wait: {} nodes wait for the slowest of\n"
          "# {}, which the forecast derives from how much the steps differ.\n",
          ranks, count, count);
    }
  } else if (sources.profile) {
    nodes = from_profile(read_profile_file(*sources.profile), sources.microbatches);
    origin = fmt::format(
        "# Times and powers of forward and backward: {} at its highest clock, {} microbatches. The wait of a "
        "pipeline's\n"
        "# stages at its ends is not in them; flyball forecast --plan has it.\n",
        *sources.profile, sources.microbatches);
  }
  if (sources.power) {
    const PerComponent<std::optional<ComponentPower>> powers = calibrate(read_recording(*sources.power));
    for (Known& known : nodes) {
      for (std::size_t c = 0; c < kComponents; ++c) {
        if (powers[c]) known.powers[c] = powers[c];
      }
      if (powers[index_of(Component::kAccelerator)]) known.accelerator_idle_guessed = false;
      known.accelerator = known.accelerator || powers[index_of(Component::kAccelerator)].has_value();
    }
    origin += fmt::format("# Component powers: {}.\n", *sources.power);
  }
  std::string text = std::string(kHead) + iteration + origin;
  for (Known& known : nodes) {
    known.count = count;
    text += node_text(known);
  }
  text.pop_back();
  return text;
}

}  // namespace flyball
