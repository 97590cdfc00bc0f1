// What is drawn is made whole and then fitted: columns to the width, rows to what the lines above and below the table
// leave of the height.
#include "cli/top_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/printable.h"
#include "base/record.h"
#include "cli/fitted_table.h"

namespace flyball {
namespace {

constexpr const char* kLeaseHeading = "lease";
constexpr const char* kHeldBackHeading = "held back by";
constexpr std::size_t kBar = 10;
constexpr std::size_t kLine = 10;      // readings that a line of the past shows
constexpr std::size_t kLeastRows = 3;  // that are shown however low the terminal is
constexpr std::size_t kMostBelow = 3;  // lines of leases below the table, and of troubles
constexpr const char* kKeys = "q quits, ? helps";

struct Row {
  const TopNode* node;
  const GpuStatus* gpu;
};

std::string bar(double share, std::size_t width) {
  static const char* const kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
  const auto eighths = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width) * 8));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t left = eighths > i * 8 ? eighths - i * 8 : 0;
    text += left >= 8 ? "█" : kEighths[left];
  }
  return text;
}

// The last readings of power, as high as their share of the limit.
std::string line_of(const std::vector<double>& readings, double limit) {
  static const char* const kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  const std::size_t first = readings.size() > kLine ? readings.size() - kLine : 0;
  for (std::size_t i = first; i < readings.size(); ++i) {
    const double share = std::clamp(limit > 0.0 ? readings[i] / limit : 0.0, 0.0, 1.0);
    text += kHeights[std::min<std::size_t>(static_cast<std::size_t>(share * 8.0), 7)];
  }
  return text;
}

std::string energy_text(double joules) {
  if (joules >= 9.9995e6) return fmt::format("{:.2f} MJ", joules / 1e6);
  if (joules >= 9999.5) return fmt::format("{:.2f} kJ", joules / 1e3);
  return fmt::format("{:.1f} J", joules);
}

std::string duration_text(Seconds time) {
  const auto seconds = static_cast<long>(time.value());
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

template <class Unit>
std::string number(const std::optional<Quantity<Unit>>& value, const char* unit) {
  return value ? fmt::format("{:.0f}{}", value->value(), unit) : "-";
}

std::optional<double> energy_since(const GpuStatus& gpu, const NodeStatus& first) {
  for (const GpuStatus& before : first.gpus) {
    if (before.uuid == gpu.uuid && before.energy && gpu.energy) return (*gpu.energy - *before.energy).value();
  }
  return std::nullopt;
}

// The present clock. A star says that a lease locks the clocks, in which case the present one may be below the lock.
std::string clock_text(const GpuStatus& gpu) {
  std::string text = number(gpu.sm_clock, " MHz");
  if (!gpu.lease) return text;
  const auto set = gpu.lease->settings.find(gpu.index);
  if (set == gpu.lease->settings.end() || !set->second.sm_clocks) return text;
  return text + "*";
}

// A star says that the limit outlasts its lease.
std::string limit_text(const GpuStatus& gpu) { return number(gpu.power_limit, " W") + (gpu.cap ? "*" : ""); }

std::string lease_text(const GpuStatus& gpu) {
  if (!gpu.lease) return gpu.cap ? "cap of " + gpu.cap->holder : "-";
  const std::string holder = gpu.lease->holder.text();
  return gpu.lease->purpose.empty() ? holder : fmt::format("{}: {}", holder, gpu.lease->purpose);
}

std::string job_of(const GpuStatus& gpu) { return gpu.lease ? gpu.lease->job : std::string(); }

std::string throttle_text(const Row& row) {
  if (!row.node->silent.empty()) return "node is silent";
  if (row.gpu->health != GpuHealth::kWell) return std::string(name_of(row.gpu->health));
  return row.gpu->throttle_reasons.empty() ? "-" : fmt::format("{}", fmt::join(row.gpu->throttle_reasons, ", "));
}

std::string short_name(const std::string& name) { return name.starts_with("NVIDIA ") ? name.substr(7) : name; }

const char* row_colour(const Row& row) {
  if (!row.node->silent.empty()) return "31";
  switch (row.gpu->health) {
    case GpuHealth::kWell: return nullptr;
    case GpuHealth::kRestoring: return "33";
    case GpuHealth::kUnwell:
    case GpuHealth::kLost: return "31";
  }
  return nullptr;
}

// Highest first; what is not known comes last.
double rank_of(const Row& row, TopOrder order) {
  constexpr double kUnknown = -1e9;
  switch (order) {
    case TopOrder::kPower: return row.gpu->power ? row.gpu->power->value() : kUnknown;
    case TopOrder::kClock: return row.gpu->sm_clock ? row.gpu->sm_clock->value() : kUnknown;
    case TopOrder::kTemperature: return row.gpu->temperature_celsius.value_or(kUnknown);
    case TopOrder::kUse: return row.gpu->utilisation.value_or(kUnknown);
    case TopOrder::kEnergy: return energy_since(*row.gpu, row.node->first).value_or(kUnknown);
    case TopOrder::kGpu:
    case TopOrder::kJob: break;
  }
  return 0.0;
}

std::vector<Row> rows_of(const TopFrame& frame) {
  std::vector<Row> rows;
  for (const TopNode& node : frame.nodes) {
    for (const GpuStatus& gpu : node.now.gpus) rows.push_back({&node, &gpu});
  }
  if (frame.order == TopOrder::kJob) {
    std::ranges::stable_sort(rows, {}, [](const Row& row) {
      const std::string job = job_of(*row.gpu);
      return std::make_tuple(job.empty(), job);
    });
  } else {
    std::ranges::stable_sort(rows, std::greater(), [&](const Row& row) { return rank_of(row, frame.order); });
  }
  return rows;
}

std::vector<FittedColumn> columns_of(const TopFrame& frame, const std::vector<Row>& rows) {
  std::vector<FittedColumn> columns;
  const auto add = [&](std::string heading, int keep, bool left, const auto& cell) -> FittedColumn& {
    FittedColumn& made = columns.emplace_back();
    made.heading = std::move(heading);
    made.keep = keep;
    made.left = left;
    for (const Row& row : rows) made.cells.push_back(printable(cell(row)));
    return made;
  };
  const auto share = [](const auto& part, const auto& whole) {
    return part && whole && whole->value() > 0 ? *part / *whole : 0.0;
  };
  const auto job = [&](const Row& row) {
    const auto known = frame.jobs.find(job_of(*row.gpu));
    return known == frame.jobs.end() ? nullptr : &known->second;
  };
  if (frame.has_nodes) add("node", 101, true, [](const Row& row) { return row.node->now.node; }).shrinks = true;
  add("GPU", 100, false, [](const Row& row) { return fmt::to_string(row.gpu->index); });
  add("name", 10, true, [](const Row& row) { return short_name(row.gpu->name); });
  add("power", 99, false, [](const Row& row) { return number(row.gpu->power, " W"); });
  add("of limit", 40, true, [&](const Row& row) {
    return bar(share(row.gpu->power, row.gpu->power_limit), kBar);
  }).colour = "32";
  if (!frame.powers.empty()) {
    add("lately", 81, true, [&](const Row& row) {
      const auto past = frame.powers.find(row.gpu->uuid);
      const double limit = row.gpu->power_limit ? row.gpu->power_limit->value() : 0.0;
      return past == frame.powers.end() ? std::string() : line_of(past->second, limit);
    }).colour = "32";
  }
  add("limit", 80, false, [](const Row& row) { return limit_text(*row.gpu); });
  add("SM clock", 95, false, [](const Row& row) { return clock_text(*row.gpu); });
  add("of top", 20, true, [&](const Row& row) {
    return bar(share(row.gpu->sm_clock, row.gpu->sm_clock_maximum), kBar);
  }).colour = "36";
  add("temp", 60, false, [](const Row& row) {
    return row.gpu->temperature_celsius ? fmt::format("{:.0f} °C", *row.gpu->temperature_celsius) : "-";
  });
  add("used", 70, false,
      [](const Row& row) { return row.gpu->utilisation ? fmt::format("{:.0f} %", 100 * *row.gpu->utilisation) : "-"; });
  add("energy", 78, false, [](const Row& row) {
    const auto energy = energy_since(*row.gpu, row.node->first);
    return energy ? energy_text(*energy) : "-";
  });
  add(kHeldBackHeading, 50, true, throttle_text).shrinks = true;
  if (std::ranges::any_of(rows, [](const Row& row) { return !job_of(*row.gpu).empty(); })) {
    add("job", 86, true, [](const Row& row) { return job_of(*row.gpu).empty() ? "-" : job_of(*row.gpu); }).shrinks =
        true;
  }
  if (!frame.jobs.empty()) {
    add("stage", 84, false, [&](const Row& row) {
      const TopJob* known = job(row);
      const auto rank = row.gpu->lease ? row.gpu->lease->rank : std::nullopt;
      if (known == nullptr || !rank || !known->stages.contains(*rank)) return std::string("-");
      return fmt::to_string(known->stages.at(*rank));
    });
    add("plan", 82, true, [&](const Row& row) {
      const TopJob* known = job(row);
      if (known == nullptr || known->version == 0) return std::string("-");
      return fmt::format("{} {}", known->version, name_of(known->promise));
    });
    add("saves", 83, false, [&](const Row& row) {
      const TopJob* known = job(row);
      return known != nullptr && known->saving_pct ? fmt::format("{:.1f} %", *known->saving_pct) : "-";
    });
  }
  add(kLeaseHeading, 85, true, [](const Row& row) { return lease_text(*row.gpu); }).shrinks = true;
  return columns;
}

// "0-3,6" of 0, 1, 2, 3, 6.
std::string ranges_of(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == i ? fmt::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

// GPUs of nodes, in the order in which they were added.
class GpuSet {
 public:
  void add(const TopNode& node, std::size_t index) {
    if (gpus_.empty() || gpus_.back().first != &node) gpus_.push_back({&node, {}});
    gpus_.back().second.push_back(index);
    ++count_;
  }
  // "GPUs 0-3,6", or with their nodes "GPUs node7:0-3 node8:1".
  [[nodiscard]] std::string text(bool with_nodes) const {
    std::string where = count_ == 1 ? "GPU" : "GPUs";
    for (const auto& [node, numbers] : gpus_) {
      where += " " + (with_nodes ? node->now.node + ":" : std::string()) + ranges_of(numbers);
    }
    return where;
  }

 private:
  std::vector<std::pair<const TopNode*, std::vector<std::size_t>>> gpus_;
  std::size_t count_ = 0;
};

// A line for each lease, or for all leases of a job together, in the order of their first GPUs.
std::vector<std::string> lease_lines(const TopFrame& frame) {
  struct Fold {
    std::string key;
    std::string words;
    GpuSet gpus;
    std::vector<std::string> ids;
  };
  std::vector<Fold> folds;
  for (const TopNode& node : frame.nodes) {
    for (const GpuStatus& gpu : node.now.gpus) {
      if (!gpu.lease) continue;
      const std::string whose = gpu.lease->holder.text() + gpu.lease->purpose + gpu.lease->id;
      const std::string key = gpu.lease->job.empty() ? "lease " + node.now.node + whose : "job " + gpu.lease->job;
      auto fold = std::ranges::find(folds, key, &Fold::key);
      if (fold == folds.end()) {
        folds.push_back({key, lease_text(gpu), {}, {}});
        fold = folds.end() - 1;
        if (!gpu.lease->job.empty()) fold->words = fmt::format("job {}: {}", gpu.lease->job, gpu.lease->holder.text());
      }
      if (std::ranges::find(fold->ids, whose) == fold->ids.end()) fold->ids.push_back(whose);
      fold->gpus.add(node, gpu.index);
    }
  }
  std::vector<std::string> lines;
  for (const Fold& fold : folds) {
    const std::string others = fold.ids.size() > 1 ? fmt::format(" and {} more", fold.ids.size() - 1) : "";
    lines.push_back(shortened(fmt::format("lease of {}  {}{}", fold.gpus.text(frame.has_nodes), fold.words, others),
                              frame.columns));
  }
  return lines;
}

// What holds GPUs back, of all nodes that answer: "held back: GPUs 0-3 power limit; GPU 6 too hot". Empty when nothing
// does.
std::string held_back_line(const TopFrame& frame) {
  std::vector<std::pair<std::string, GpuSet>> folds;
  for (const TopNode& node : frame.nodes) {
    for (const GpuStatus& gpu : node.now.gpus) {
      const std::string reason = throttle_text({&node, &gpu});
      if (reason == "-" || !node.silent.empty()) continue;
      auto fold = std::ranges::find(folds, reason, &std::pair<std::string, GpuSet>::first);
      if (fold == folds.end()) fold = folds.insert(fold, {reason, {}});
      fold->second.add(node, gpu.index);
    }
  }
  std::string line;
  for (const auto& [reason, gpus] : folds) {
    line += fmt::format("{}{} {}", line.empty() ? "held back: " : "; ", gpus.text(frame.has_nodes), reason);
  }
  return shortened(line, frame.columns);
}

// The columns as far as they fit. A lease's holder is not cut short: if its column would be, it is left out, and
// `leases` lists the holders below the table.
std::vector<FittedColumn> fitting_columns(const TopFrame& frame, const std::vector<Row>& rows,
                                          std::vector<std::string>& leases) {
  const auto is_lease = [](const FittedColumn& column) { return column.heading == kLeaseHeading; };
  std::vector<FittedColumn> columns = columns_of(frame, rows);
  fit_columns(columns, frame.columns);
  if (std::ranges::none_of(rows, [](const Row& row) { return row.gpu->lease.has_value(); })) return columns;
  const auto lease = std::ranges::find_if(columns, is_lease);
  if (lease != columns.end() && lease->is_whole()) return columns;
  columns = columns_of(frame, rows);
  std::erase_if(columns, is_lease);
  fit_columns(columns, frame.columns);
  leases = lease_lines(frame);
  return columns;
}

void keep_first(std::vector<std::string>& lines, std::size_t most, const char* what) {
  if (lines.size() <= most) return;
  const std::size_t left_out = lines.size() - most + 1;
  lines.resize(most - 1);
  lines.push_back(fmt::format("and {} more {}", left_out, what));
}

std::vector<std::string> cpu_lines(const TopFrame& frame) {
  std::vector<std::string> lines;
  for (const TopNode& node : frame.nodes) {
    for (const CpuStatus& cpu : node.now.cpus) {
      std::string line = fmt::format("CPU {}  {}", cpu.index, cpu.name);
      for (const CpuStatus& before : node.first.cpus) {
        if (before.index != cpu.index || !before.package_energy || !cpu.package_energy) continue;
        line += "  " + energy_text((*cpu.package_energy - *before.package_energy).value());
        if (before.dram_energy && cpu.dram_energy) {
          line += "  memory " + energy_text((*cpu.dram_energy - *before.dram_energy).value());
        }
      }
      if (!cpu.trouble.empty()) line += "  not readable";
      lines.push_back(shortened(line, frame.columns));
    }
  }
  return lines;
}

std::vector<std::string> trouble_lines(const TopFrame& frame) {
  std::vector<std::string> lines;
  for (const TopNode& node : frame.nodes) {
    if (!node.silent.empty()) {
      const std::string line =
          fmt::format("node {} is silent: {}", node.now.node, node.silent.substr(0, node.silent.find('\n')));
      lines.push_back(coloured(frame.colour, "31", shortened(line, frame.columns)));
    }
    for (const GpuStatus& gpu : node.now.gpus) {
      if (gpu.trouble.empty()) continue;
      const std::string own_name = fmt::format("GPU:{}: ", gpu.index);  // with which drivers' words begin
      const std::size_t words = gpu.trouble.starts_with(own_name) ? own_name.size() : 0;
      const std::string line = fmt::format("{}GPU {}: {}", frame.has_nodes ? node.now.node + " " : "", gpu.index,
                                           gpu.trouble.substr(words, gpu.trouble.find('\n') - words));
      lines.push_back(coloured(frame.colour, row_colour({&node, &gpu}), shortened(line, frame.columns)));
    }
  }
  return lines;
}

std::string title_of(const TopFrame& frame) {
  double power = 0;
  double energy = 0;
  std::size_t gpus = 0;
  std::size_t silent = 0;
  for (const TopNode& node : frame.nodes) {
    silent += node.silent.empty() ? 0 : 1;
    for (const GpuStatus& gpu : node.now.gpus) {
      ++gpus;
      if (gpu.power) power += gpu.power->value();
      energy += energy_since(gpu, node.first).value_or(0);
    }
  }
  std::string where = frame.nodes.empty() ? "" : frame.nodes.front().now.node;
  if (frame.has_nodes) {
    where = fmt::format("{} node{}{}", frame.nodes.size(), frame.nodes.size() == 1 ? "" : "s",
                        silent == 0 ? "" : fmt::format(" ({} silent)", silent));
  }
  return fmt::format("{}  {} GPU{}  {:.0f} W  {} in {}", where, gpus, gpus == 1 ? "" : "s", power, energy_text(energy),
                     duration_text(frame.elapsed));
}

// All lines: those above the table, its rows, and those below.
struct Picture {
  std::vector<std::string> head;
  std::vector<std::string> rows;
  std::vector<std::string> tail;
};

Picture picture_of(const TopFrame& frame) {
  Picture picture;
  picture.head.push_back(coloured(frame.colour, "1", shortened(title_of(frame), frame.columns)));
  picture.head.push_back(coloured(frame.colour, "2", shortened(frame.source, frame.columns)));
  if (!frame.away.empty()) {
    const std::string line = "last look; trying again: " + frame.away.substr(0, frame.away.find('\n'));
    picture.head.push_back(coloured(frame.colour, "31", shortened(line, frame.columns)));
  }
  picture.head.emplace_back();
  const std::vector<Row> rows = rows_of(frame);
  std::vector<std::string> leases;
  std::string held_back;
  if (rows.empty()) {
    picture.head.push_back(shortened(frame.has_nodes ? "the planning server knows no GPUs; flyball serve --agents FILE "
                                                       "asks the nodes"
                                                     : "no GPUs here; flyball devices says why",
                                     frame.columns));
  } else {
    const std::vector<FittedColumn> columns = fitting_columns(frame, rows, leases);
    picture.head.push_back(heading_line(columns, frame.colour));
    // Where its column has no room.
    if (std::ranges::find(columns, kHeldBackHeading, &FittedColumn::heading) == columns.end()) {
      held_back = held_back_line(frame);
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
      picture.rows.push_back(row_line(columns, row, row_colour(rows[row]), frame.colour));
    }
  }
  std::vector<std::string> troubles = trouble_lines(frame);
  if (frame.lines > 0) {
    keep_first(leases, kMostBelow, "leases");
    keep_first(troubles, kMostBelow, "troubles");
  }
  if (!held_back.empty()) leases.push_back(held_back);
  for (const std::vector<std::string>& part : {leases, cpu_lines(frame), troubles}) {
    if (part.empty()) continue;
    picture.tail.emplace_back();
    picture.tail.insert(picture.tail.end(), part.begin(), part.end());
  }
  return picture;
}

// Of the terminal's last line nothing is used but for the keys.
TopRows shown_rows(const TopFrame& frame, const Picture& picture) {
  const std::size_t all = picture.rows.size();
  if (frame.lines == 0) return {all, all};
  const std::size_t others = picture.head.size() + picture.tail.size() + 1;
  const std::size_t room = frame.lines > others ? frame.lines - others : 0;
  return {std::min(all, std::max(room, kLeastRows)), all};
}

}  // namespace

TopRows rows_of_top(const TopFrame& frame) { return shown_rows(frame, picture_of(frame)); }

std::string draw_top(const TopFrame& frame) {
  const Picture picture = picture_of(frame);
  const TopRows rows = shown_rows(frame, picture);
  const std::size_t first = std::min(frame.offset, rows.all - rows.shown);
  std::string text;
  const auto add = [&](const std::string& line) { text += line + "\n"; };
  for (const std::string& line : picture.head) add(line);
  for (std::size_t row = first; row < first + rows.shown; ++row) add(picture.rows[row]);
  for (const std::string& line : picture.tail) add(line);
  if (frame.lines == 0) return text;
  std::string keys = kKeys;
  if (rows.shown < rows.all) {
    keys = fmt::format("rows {} to {} of {}, arrows scroll; {}", first + 1, first + rows.shown, rows.all, kKeys);
  }
  if (frame.order != TopOrder::kGpu) keys += fmt::format("; by {}", name_of(frame.order));
  add(coloured(frame.colour, "2", shortened(keys, frame.columns)));
  return text;
}

std::string top_json(const TopFrame& frame) {
  using Json = nlohmann::ordered_json;
  const auto node_json = [](const TopNode& node) {
    Json json = to_json(node.now);
    for (std::size_t i = 0; i < node.now.gpus.size(); ++i) {
      json["gpus"][i]["energy_since_start_j"] = write_value(energy_since(node.now.gpus[i], node.first));
    }
    return json;
  };
  Json json;
  if (frame.has_nodes) {
    json["nodes"] = Json::array();
    for (const TopNode& node : frame.nodes) {
      Json one = node_json(node);
      one["silent"] = node.silent.empty() ? Json() : Json(node.silent);
      json["nodes"].push_back(std::move(one));
    }
    json["jobs"] = Json::object();
    for (const auto& [id, job] : frame.jobs) {
      json["jobs"][id] = Json{
          {"version", job.version}, {"promise", name_of(job.promise)}, {"saving_pct", write_value(job.saving_pct)}};
    }
  } else {
    json = node_json(frame.nodes.front());
  }
  json["source"] = frame.source;
  json["elapsed_s"] = frame.elapsed.value();
  json["away"] = frame.away.empty() ? Json() : Json(frame.away);
  return dump_json(json) + "\n";
}

}  // namespace flyball
