// The table is made whole and then fitted to the terminal: as long as it is too wide, columns that may be cut short
// are, from the right, and where that is not enough the least important column is left out.
#include "cli/top_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/printable.h"
#include "base/record.h"
#include "base/utf8.h"

namespace flyball {
namespace {

constexpr const char* kLeaseHeading = "lease";
constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastText = 6;  // what a shortened column keeps

// The first `width` characters, of which the last tells whether there were more.
std::string shortened(const std::string& foreign, std::size_t width) {
  std::string text = printable(foreign);
  if (count_characters(text) <= width) return text;
  if (width == 0) return {};
  std::string cut;
  std::size_t count = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
    if (begins && ++count == width) break;
    cut += c;
  }
  return cut + "…";
}

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

struct Column {
  std::string heading;
  int keep;  // the column with the least goes first
  bool left = false;
  bool shrinks = false;
  std::vector<std::string> cells;
  std::size_t width = 0;
  const char* colour = nullptr;
};

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

std::string throttle_text(const GpuStatus& gpu) {
  if (gpu.health != GpuHealth::kWell) return std::string(name_of(gpu.health));
  return gpu.throttle_reasons.empty() ? "-" : fmt::format("{}", fmt::join(gpu.throttle_reasons, ", "));
}

std::string short_name(const std::string& name) { return name.starts_with("NVIDIA ") ? name.substr(7) : name; }

std::vector<Column> gpu_columns(const TopFrame& frame) {
  constexpr std::size_t kBar = 10;
  const auto column = [&](std::string heading, int keep, bool left,
                          const std::function<std::string(const GpuStatus&)>& cell) {
    Column made{std::move(heading), keep, left, false, {}, 0, nullptr};
    for (const GpuStatus& gpu : frame.now.gpus) made.cells.push_back(printable(cell(gpu)));
    return made;
  };
  const auto share = [](const auto& part, const auto& whole) {
    return part && whole && whole->value() > 0 ? *part / *whole : 0.0;
  };
  std::vector<Column> columns;
  columns.push_back(column("GPU", 100, false, [](const GpuStatus& gpu) { return fmt::to_string(gpu.index); }));
  columns.push_back(column("name", 10, true, [](const GpuStatus& gpu) { return short_name(gpu.name); }));
  columns.push_back(column("power", 99, false, [](const GpuStatus& gpu) { return number(gpu.power, " W"); }));
  columns.push_back(
      column("of limit", 40, true, [&](const GpuStatus& gpu) { return bar(share(gpu.power, gpu.power_limit), kBar); }));
  columns.back().colour = "32";
  columns.push_back(column("limit", 80, false, limit_text));
  columns.push_back(column("SM clock", 95, false, clock_text));
  columns.push_back(column("of top", 20, true,
                           [&](const GpuStatus& gpu) { return bar(share(gpu.sm_clock, gpu.sm_clock_maximum), kBar); }));
  columns.back().colour = "36";
  columns.push_back(column("temp", 60, false, [](const GpuStatus& gpu) {
    return gpu.temperature_celsius ? fmt::format("{:.0f} °C", *gpu.temperature_celsius) : "-";
  }));
  columns.push_back(column("used", 70, false, [](const GpuStatus& gpu) {
    return gpu.utilisation ? fmt::format("{:.0f} %", 100 * *gpu.utilisation) : "-";
  }));
  columns.push_back(column("energy", 90, false, [&](const GpuStatus& gpu) {
    const auto energy = energy_since(gpu, frame.first);
    return energy ? energy_text(*energy) : "-";
  }));
  columns.push_back(column("held back by", 50, true, throttle_text));
  columns.back().shrinks = true;
  columns.push_back(column(kLeaseHeading, 85, true, lease_text));
  columns.back().shrinks = true;
  return columns;
}

bool is_lease(const Column& column) { return column.heading == kLeaseHeading; }

std::size_t total_width(const std::vector<Column>& columns) {
  std::size_t total = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const Column& column : columns) total += column.width;
  return total;
}

// Shortens what may be shortened, then leaves out what matters least, until the rest fits.
void fit(std::vector<Column>& columns, std::size_t width) {
  for (Column& column : columns) {
    column.width = count_characters(column.heading);
    for (const std::string& cell : column.cells) column.width = std::max(column.width, count_characters(cell));
  }
  while (total_width(columns) > width && columns.size() > 1) {
    std::size_t spare = 0;
    for (const Column& column : columns) {
      if (column.shrinks)
        spare += column.width - std::min(column.width, std::max(kLeastText, count_characters(column.heading)));
    }
    std::size_t excess = total_width(columns) - width;
    if (spare >= excess) {
      // Columns are cut from the right: a lease's holder is longer than the reason that holds a clock back.
      for (auto at = columns.rbegin(); at != columns.rend(); ++at) {
        Column& column = *at;
        if (!column.shrinks) continue;
        const std::size_t least = std::min(column.width, std::max(kLeastText, count_characters(column.heading)));
        const std::size_t cut = std::min(excess, column.width - least);
        column.width -= cut;
        excess -= cut;
      }
      return;
    }
    columns.erase(std::min_element(columns.begin(), columns.end(),
                                   [](const Column& a, const Column& b) { return a.keep < b.keep; }));
  }
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string fitting = shortened(text, width);
  const std::string blanks(width - count_characters(fitting), ' ');
  return left ? fitting + blanks : blanks + fitting;
}

void end_line(std::string& text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text += '\n';
}

std::string coloured(const TopFrame& frame, const char* code, const std::string& text) {
  return frame.colour && code != nullptr ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

const char* row_colour(const GpuStatus& gpu) {
  switch (gpu.health) {
    case GpuHealth::kWell: return nullptr;
    case GpuHealth::kRestoring: return "33";
    case GpuHealth::kUnwell:
    case GpuHealth::kLost: return "31";
  }
  return nullptr;
}

// The columns as far as they fit. A lease's holder is not cut short: if its column would be, it is left out, and
// `leases` lists the holders below the table.
std::vector<Column> fitting_columns(const TopFrame& frame, std::string& leases) {
  std::vector<Column> columns = gpu_columns(frame);
  fit(columns, frame.columns);
  const auto& gpus = frame.now.gpus;
  if (std::none_of(gpus.begin(), gpus.end(), [](const GpuStatus& gpu) { return gpu.lease.has_value(); }))
    return columns;
  const auto whole = [](const Column& column) {
    return std::all_of(column.cells.begin(), column.cells.end(),
                       [&](const std::string& cell) { return count_characters(cell) <= column.width; });
  };
  const auto lease = std::find_if(columns.begin(), columns.end(), is_lease);
  if (lease != columns.end() && whole(*lease)) return columns;
  columns = gpu_columns(frame);
  columns.erase(std::remove_if(columns.begin(), columns.end(), is_lease), columns.end());
  fit(columns, frame.columns);
  for (const GpuStatus& gpu : gpus) {
    if (!gpu.lease) continue;
    leases += shortened(fmt::format("lease of GPU {}  {}", gpu.index, lease_text(gpu)), frame.columns) + "\n";
  }
  return columns;
}

std::string draw_table(const TopFrame& frame) {
  std::string leases;
  const std::vector<Column> columns = fitting_columns(frame, leases);
  std::string heading;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    heading += (i == 0 ? "" : std::string(kGap, ' ')) + padded(columns[i].heading, columns[i].width, columns[i].left);
  }
  std::string text = coloured(frame, "1", heading);
  end_line(text);
  for (std::size_t row = 0; row < frame.now.gpus.size(); ++row) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      const std::string cell = padded(column.cells[row], column.width, column.left);
      const char* colour = column.colour != nullptr ? column.colour : row_colour(frame.now.gpus[row]);
      line += (i == 0 ? "" : std::string(kGap, ' ')) + coloured(frame, colour, cell);
    }
    end_line(line);
    text += line;
  }
  if (!leases.empty()) text += "\n" + leases;
  return text;
}

std::string draw_cpus(const TopFrame& frame) {
  std::string text;
  for (const CpuStatus& cpu : frame.now.cpus) {
    std::string line = fmt::format("CPU {}  {}", cpu.index, cpu.name);
    for (const CpuStatus& before : frame.first.cpus) {
      if (before.index != cpu.index || !before.package_energy || !cpu.package_energy) continue;
      line += "  " + energy_text((*cpu.package_energy - *before.package_energy).value());
      if (before.dram_energy && cpu.dram_energy) {
        line += "  memory " + energy_text((*cpu.dram_energy - *before.dram_energy).value());
      }
    }
    if (!cpu.trouble.empty()) line += "  not readable";
    text += shortened(line, frame.columns);
    end_line(text);
  }
  return text;
}

}  // namespace

std::string draw_top(const TopFrame& frame) {
  double power = 0;
  double energy = 0;
  std::string troubles;
  for (const GpuStatus& gpu : frame.now.gpus) {
    if (gpu.power) power += gpu.power->value();
    energy += energy_since(gpu, frame.first).value_or(0);
    if (gpu.trouble.empty()) continue;
    const std::string own_name = fmt::format("GPU:{}: ", gpu.index);  // with which drivers' words begin
    const std::size_t words = gpu.trouble.starts_with(own_name) ? own_name.size() : 0;
    const std::string line =
        fmt::format("GPU {}: {}", gpu.index, gpu.trouble.substr(words, gpu.trouble.find('\n') - words));
    troubles += coloured(frame, row_colour(gpu), shortened(line, frame.columns)) + "\n";
  }
  std::string text = coloured(frame, "1",
                              shortened(fmt::format("{}  {} GPU{}  {:.0f} W  {} in {}", frame.now.node,
                                                    frame.now.gpus.size(), frame.now.gpus.size() == 1 ? "" : "s", power,
                                                    energy_text(energy), duration_text(frame.elapsed)),
                                        frame.columns));
  end_line(text);
  text += coloured(frame, "2", shortened(frame.source, frame.columns)) + "\n";
  if (!frame.away.empty()) {
    const std::string line = "last look; trying again: " + frame.away.substr(0, frame.away.find('\n'));
    text += coloured(frame, "31", shortened(line, frame.columns)) + "\n";
  }
  text += '\n';
  if (frame.now.gpus.empty()) {
    text += shortened("no GPUs here; flyball devices says why", frame.columns) + "\n";
  } else {
    text += draw_table(frame);
  }
  if (!frame.now.cpus.empty()) text += "\n" + draw_cpus(frame);
  if (!troubles.empty()) text += "\n" + troubles;
  return text;
}

std::string top_json(const TopFrame& frame) {
  nlohmann::ordered_json json = to_json(frame.now);
  json["source"] = frame.source;
  json["elapsed_s"] = frame.elapsed.value();
  json["away"] = frame.away.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(frame.away);
  for (std::size_t i = 0; i < frame.now.gpus.size(); ++i) {
    json["gpus"][i]["energy_since_start_j"] = write_value(energy_since(frame.now.gpus[i], frame.first));
  }
  return dump_json(json) + "\n";
}

}  // namespace flyball
