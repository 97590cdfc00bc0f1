// Tables are laid out by draw/text_table. For a diagram the program `dot` is run between two files in memory, and what
// it drew is copied to `path` only when it has ended well, so that nobody sees half a picture.
#include "cli/account_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "account/rank_footprint.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/record_codec.h"
#include "base/text.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/energy_diagram.h"
#include "report/footprint_report.h"
#include "report/footprint_words.h"

extern char** environ;

namespace flyball {
namespace {

double percent(Joules part, Joules whole) { return whole > Joules(0) ? 100.0 * (part / whole) : 0.0; }

std::string devices_text(const Footprint& footprint) {
  std::vector<std::string> columns = {"<device", "measured (J)", "attributed (J)", "idle (J)", "outside (J)"};
  if (footprint.elsewhere() > Joules(0)) columns.insert(columns.end(), {"others (J)", "system (J)", "monitor (J)"});
  columns.insert(columns.end(), {"busy (s)", "idle (s)", "outside (s)", "no power (s)", "<method"});
  TextTable table(columns);
  for (const FootprintDevice& device : footprint.devices) table.add_row(device_cells(footprint, device, 3));
  return table.str();
}

std::string ranks_text(const std::vector<RankShare>& ranks) {
  TextTable table({"rank", "energy (J)", "idle (J)", "computing (s)", "communicating (s)", "alone (s)", "processor (s)",
                   "<devices of its own"});
  for (const RankShare& share : ranks) {
    table.add_row({fmt::to_string(share.rank), format_fixed(share.energy.value(), 3),
                   format_fixed(share.idle.value(), 3), format_fixed(share.computing.value(), 3),
                   format_fixed(share.communicating.value(), 3), format_fixed(share.exposed.value(), 3),
                   format_fixed(share.processor.value(), 3), fmt::format("{}", fmt::join(share.devices, " "))});
  }
  return table.str() + fmt::format("rank {} computes for the longest time\n", ranks[slowest_rank(ranks)].rank);
}

// What of the attributed energy can be trusted, in one sentence.
std::string trust_sentence(const Footprint& footprint) {
  const Trust trust = footprint.trust();
  if (!trust.judged) return "";
  const auto part = [whole = footprint.attributed()](std::size_t rows, Joules energy) {
    return fmt::format("{} with {:.1f} %", counted(static_cast<long>(rows), "row"), percent(energy, whole));
  };
  std::string text = fmt::format("known to {:.0f} %: {} of the attributed energy", 100.0 * Trust::kWell,
                                 part(trust.known, trust.known_energy));
  if (trust.grouped > 0) text += fmt::format("; as groups only: {}", part(trust.grouped, trust.grouped_energy));
  if (trust.rest > 0) text += fmt::format("; less well: {}", part(trust.rest, trust.rest_energy));
  return text;
}

std::string groups_text(const Footprint& footprint) {
  if (footprint.groups.empty()) return "";
  TextTable table({"group", "energy (J)", "90 % +- (J)", "rows", "<device"});
  for (const FootprintGroup& group : footprint.groups) {
    const auto rows = std::count_if(footprint.rows.begin(), footprint.rows.end(),
                                    [&group](const FootprintRow& row) { return row.group == group.number; });
    table.add_row({fmt::to_string(group.number), format_fixed(group.energy.value(), 3),
                   format_fixed(group.error.value(), 3), fmt::to_string(rows), group.device});
  }
  return "\nrows that always run together, of which only the sum is known\n\n" + table.str();
}

}  // namespace

std::string footprint_text(const Footprint& footprint, const FootprintNotes& notes, std::size_t top) {
  const Joules measured = footprint.measured();
  const Joules attributed = footprint.attributed();
  std::string text =
      fmt::format("measured {} J = attributed {} J ({:.1f} %) + idle {} J ({:.1f} %)",
                  format_fixed(measured.value(), 3), format_fixed(attributed.value(), 3), percent(attributed, measured),
                  format_fixed(footprint.idle().value(), 3), percent(footprint.idle(), measured));
  if (footprint.outside() > Joules(0)) {
    text += fmt::format(" + outside the profile {} J ({:.1f} %)", format_fixed(footprint.outside().value(), 3),
                        percent(footprint.outside(), measured));
  }
  if (footprint.elsewhere() > Joules(0)) {
    text += fmt::format(" + elsewhere {} J ({:.1f} %)", format_fixed(footprint.elsewhere().value(), 3),
                        percent(footprint.elsewhere(), measured));
  }
  if (footprint.runs > 1) text += fmt::format(", mean of {} runs", footprint.runs);
  if (!footprint.ranks.empty()) text += fmt::format(", sum of {}", counted(std::ssize(footprint.ranks), "rank"));
  text += '\n';
  for (const std::string& sentence :
       {steps_sentence(footprint.steps), classes_sentence(footprint), communication_sentence(footprint),
        static_sentence(footprint), trust_sentence(footprint)}) {
    if (!sentence.empty()) text += sentence + "\n";
  }
  text += "\n" + devices_text(footprint) + "\n";
  if (!footprint.ranks.empty()) text += ranks_text(footprint.ranks) + "\n";

  const bool several = footprint.runs > 1 || footprint.ranks.size() > 1;
  std::vector<std::string> columns = {"energy (J)"};
  if (several) columns.emplace_back("+- (J)");
  const bool judged = footprint.trust().judged;
  if (judged) columns.emplace_back("90 % +- (J)");
  const bool apart = !static_sentence(footprint).empty();
  if (apart) columns.emplace_back("static (J)");
  if (!footprint.groups.empty()) columns.emplace_back("group");
  columns.insert(columns.end(), {"share (%)", "busy (s)", "mean power (W)", "<pass", "<device", "<name"});
  TextTable table(columns);
  const std::size_t shown = std::min(top, footprint.rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const FootprintRow& row = footprint.rows[i];
    std::vector<std::string> cells = {format_fixed(row.energy.value(), 3)};
    if (several) cells.push_back(format_fixed(row.energy_deviation.value(), 3));
    if (judged) cells.push_back(format_fixed(row.error.value(), 3));
    if (apart) {
      const bool is_known = !std::isnan(row.static_energy.value());
      cells.push_back(is_known ? format_fixed(row.static_energy.value(), 3) : "");
    }
    if (!footprint.groups.empty()) cells.push_back(row.group == 0 ? "" : fmt::to_string(row.group));
    cells.push_back(format_fixed(percent(row.energy, attributed), 2));
    cells.push_back(format_fixed(row.busy.value(), 4));
    cells.push_back(format_fixed(row.mean_power().value(), 1));
    cells.emplace_back(row.phase == Phase::kUnknown ? "-" : name_of(row.phase));
    cells.push_back(row.device);
    cells.push_back(row.name);
    table.add_row(std::move(cells));
  }
  text += table.str();
  if (shown < footprint.rows.size()) {
    Joules rest;
    for (std::size_t i = shown; i < footprint.rows.size(); ++i) rest += footprint.rows[i].energy;
    text += fmt::format("and {} more with {} J\n", footprint.rows.size() - shown, format_fixed(rest.value(), 3));
  }
  text += groups_text(footprint);
  if (!notes.empty()) text += '\n';
  for (const std::string& note : notes) text += printable(note) + "\n";
  return text;
}

std::string comparison_text(const FootprintComparison& comparison, std::size_t top) {
  std::string text = fmt::format(
      "correlation (Pearson) of energy {}, of mean power {}, over {} names\n"
      "mean difference B - A per name: {} J, {} W\n\n",
      format_fixed(comparison.energy_correlation, 4), format_fixed(comparison.power_correlation, 4), comparison.names,
      format_signed(comparison.mean_energy_difference.value(), 4),
      format_signed(comparison.mean_power_difference.value(), 2));
  TextTable table({"change (J)", "A (J)", "B (J)", "<name"});
  for (std::size_t i = 0; i < std::min(top, comparison.moves.size()); ++i) {
    const FootprintMove& move = comparison.moves[i];
    table.add_row({format_signed(move.change().value(), 3), format_fixed(move.before.value(), 3),
                   format_fixed(move.after.value(), 3), move.name});
  }
  return text + table.str();
}

std::string comparison_json(const FootprintComparison& comparison) {
  nlohmann::ordered_json moves = nlohmann::ordered_json::array();
  for (const FootprintMove& move : comparison.moves) {
    moves.push_back({{"name", move.name},
                     {"change_j", move.change().value()},
                     {"a_j", move.before.value()},
                     {"b_j", move.after.value()}});
  }
  const nlohmann::ordered_json json = {{"names", comparison.names},
                                       {"energy_correlation", write_value(comparison.energy_correlation)},
                                       {"mean_power_correlation", write_value(comparison.power_correlation)},
                                       {"mean_energy_difference_j", comparison.mean_energy_difference.value()},
                                       {"mean_power_difference_w", comparison.mean_power_difference.value()},
                                       {"moves", std::move(moves)}};
  return dump_json(json, 2) + "\n";
}

void write_diagram_svg(const EnergyTree& tree, const std::string& module, const std::string& path) {
  const std::size_t node = tree.find(module);
  if (node == tree.nodes.size()) {
    std::vector<std::string> paths;
    for (const EnergyNode& candidate : tree.nodes) paths.push_back(candidate.path);
    const std::string meant = nearest_name(module, paths);
    throw UsageError(fmt::format("--module: there is no '{}' in the model{}", module,
                                 meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
  }
  if (tree.nodes[node].children.empty()) {
    throw UsageError(fmt::format("--module: '{}' is a tensor and has no parts to draw", module));
  }
  const std::string dot = energy_diagram_dot(tree, node);
  if (path.ends_with(".dot")) return write_text_file(path, dot);

  const FileDescriptor input(::memfd_create("flyball-dot", MFD_CLOEXEC));
  if (input.get() < 0 || ::write(input.get(), dot.data(), dot.size()) != static_cast<ssize_t>(dot.size()) ||
      ::lseek(input.get(), 0, SEEK_SET) != 0) {
    throw SystemError(fmt::format("cannot hand the diagram to dot: {}", std::strerror(errno)));
  }
  const FileDescriptor output(::memfd_create("flyball-svg", MFD_CLOEXEC));
  if (output.get() < 0) throw SystemError(fmt::format("no memory for the diagram: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  std::string program = "dot";
  std::string format = "-Tsvg";
  char* arguments[] = {program.data(), format.data(), nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, "dot", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw SystemError(
        fmt::format("--svg wants Graphviz' program dot ({}); install the package graphviz, or use --html, or name a "
                    ".dot file",
                    std::strerror(failure)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw SystemError(fmt::format("dot could not draw {}", path));
  // The file is written only now, so that nobody sees half of it.
  write_text_file(path, read_text_file(fmt::format("/proc/self/fd/{}", output.get())));
}

std::string quality_text(const QualityFigures& figures) {
  std::string text;
  if (!figures.sparsing.empty()) {
    TextTable table({"every n-th reading", "ASSS"});
    for (const QualityFigures::Sparsing& entry : figures.sparsing) {
      table.add_row({fmt::to_string(entry.keep), format_fixed(entry.similarity, 4)});
    }
    text += "with the power readings thinned out\n\n" + table.str() + "\n";
  }
  TextTable widening({"runs", "ASSW"});
  for (std::size_t i = 0; i < figures.quality.widening.size(); ++i) {
    widening.add_row({fmt::to_string(i + 1), format_fixed(figures.quality.widening[i], 4)});
  }
  text += "the mean of the first runs with that of all\n\n" + widening.str() + "\nstability, run by run\n\n";
  std::vector<std::string> columns = {"<run"};
  for (std::size_t i = 0; i < figures.runs.size(); ++i) columns.push_back(fmt::to_string(i + 1));
  TextTable stability(columns);
  for (std::size_t i = 0; i < figures.runs.size(); ++i) {
    std::vector<std::string> cells = {fmt::format("{} {}", i + 1, figures.runs[i])};
    for (const double value : figures.quality.stability[i]) cells.push_back(format_fixed(value, 4));
    stability.add_row(std::move(cells));
  }
  return text + stability.str();
}

std::string quality_json(const QualityFigures& figures) {
  nlohmann::ordered_json sparsing = nlohmann::ordered_json::array();
  for (const QualityFigures::Sparsing& entry : figures.sparsing) {
    sparsing.push_back({{"every", entry.keep}, {"similarity", write_value(entry.similarity)}});
  }
  const nlohmann::ordered_json json = {{"runs", figures.runs},
                                       {"asss", std::move(sparsing)},
                                       {"assw", write_value(figures.quality.widening)},
                                       {"stability", write_value(figures.quality.stability)}};
  return json.dump(2) + "\n";
}

}  // namespace flyball
