// flyball devices: what there is to measure and to throttle, and what to do about the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/record_codec.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/device_error_json.h"
#include "cli/option_values.h"
#include "client/inventory.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

struct DevicesOptions {
  std::optional<std::string> format;
};

struct Inventory {
  MachineDevices machine;
  std::vector<GpuReport> gpus;
  std::vector<CpuReport> cpus;
};

Inventory take_inventory() {
  Inventory inventory;
  inventory.machine = open_machine();
  for (const auto& gpu : inventory.machine.gpus) inventory.gpus.push_back(report_of(gpu));
  for (const auto& cpu : inventory.machine.cpus) inventory.cpus.push_back(report_of(*cpu));
  return inventory;
}

Json json_of(const GpuReport& gpu) {
  Json limits;
  if (gpu.power_limits) {
    limits = {{"minimum", gpu.power_limits->minimum.value()},
              {"maximum", gpu.power_limits->maximum.value()},
              {"standard", gpu.power_limits->standard.value()}};
  }
  Json access = {{"allowed", gpu.access.allowed}, {"reason", gpu.access.reason}};
  if (!gpu.access.allowed) access.update({{"fault", key_of(gpu.access.why)}, {"mend", gpu.access.mend}});
  return {{"device", gpu.label},
          {"index", gpu.identity.index},
          {"name", gpu.identity.name},
          {"uuid", gpu.identity.uuid},
          {"pci_bus_id", gpu.identity.pci_bus_id},
          {"sm_clock_mhz", write_value(gpu.sm_clock)},
          {"sm_clocks_mhz", write_value(gpu.sm_clocks)},
          {"memory_clock_mhz", write_value(gpu.memory_clock)},
          {"memory_clocks_mhz", write_value(gpu.memory_clocks)},
          {"power_w", write_value(gpu.power)},
          {"power_limit_w", write_value(gpu.power_limit)},
          {"power_limits_w", limits},
          {"total_energy_j", write_value(gpu.total_energy)},
          {"temperature_c", write_value(gpu.temperature_celsius)},
          {"throttle_reasons", write_value(gpu.throttle_reasons)},
          {"persistence", write_value(gpu.persistence)},
          {"clocks_may_be_set", access},
          {"problems", device_errors_json(gpu.problems)}};
}

std::string inventory_json(const Inventory& inventory) {
  Json drivers = Json::array();
  for (const GpuDriver& driver : inventory.machine.drivers) {
    drivers.push_back({{"vendor", driver.vendor}, {"version", driver.version}});
  }
  Json gpus = Json::array();
  for (const GpuReport& gpu : inventory.gpus) gpus.push_back(json_of(gpu));
  Json cpus = Json::array();
  for (const CpuReport& cpu : inventory.cpus) {
    cpus.push_back({{"device", cpu.label},
                    {"name", cpu.name},
                    {"readable", cpu.readable},
                    {"memory", cpu.memory},
                    {"problem", cpu.problem ? device_error_json(*cpu.problem) : Json()}});
  }
  const Json result = {{"drivers", drivers},
                       {"gpus", gpus},
                       {"cpus", cpus},
                       {"unavailable", device_errors_json(inventory.machine.unavailable)}};
  return dump_json(result, 2) + "\n";
}

std::string clock_line(const std::vector<Megahertz>& clocks, std::optional<Megahertz> now) {
  std::string text = "no list";
  if (clocks.size() == 1) text = fmt::format("{:.0f} MHz only", clocks.front().value());
  if (clocks.size() > 1) {
    text = fmt::format("{:.0f} to {:.0f} MHz, {} clocks", clocks.back().value(), clocks.front().value(), clocks.size());
  }
  return now ? fmt::format("{}; now {:.0f} MHz", text, now->value()) : text;
}

std::string power_line(const GpuReport& gpu) {
  std::string text = gpu.power ? fmt::format("{:.1f} W", gpu.power->value()) : "not told";
  if (gpu.power_limit) text += fmt::format("; limit {:.0f} W", gpu.power_limit->value());
  if (gpu.power_limits) {
    text += fmt::format(" ({:.0f} to {:.0f} W, standard {:.0f} W)", gpu.power_limits->minimum.value(),
                        gpu.power_limits->maximum.value(), gpu.power_limits->standard.value());
  }
  return text;
}

std::string indented(std::string text, const std::string& indent) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 1 + indent.size()) {
    const std::size_t words = text.find_first_not_of(' ', at + 1);
    text.replace(at, (words == std::string::npos ? text.size() : words) - at, "\n" + indent);
  }
  return text;
}

std::string text_of(const GpuReport& gpu) {
  std::string text = fmt::format("{}  {}\n", gpu.label, gpu.identity.name);
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<14}{}\n", name, indented(value, std::string(16, ' ')));
  };
  line("uuid", gpu.identity.uuid);
  if (!gpu.identity.pci_bus_id.empty()) line("PCI", gpu.identity.pci_bus_id);
  line("SM clock", clock_line(gpu.sm_clocks, gpu.sm_clock));
  line("memory clock", clock_line(gpu.memory_clocks, gpu.memory_clock));
  line("power", power_line(gpu));
  line("energy", gpu.total_energy ? fmt::format("counter at {:.0f} J", gpu.total_energy->value())
                                  : "no counter: power is integrated");
  if (gpu.temperature_celsius) line("temperature", fmt::format("{:.0f} °C", *gpu.temperature_celsius));
  if (gpu.throttle_reasons && !gpu.throttle_reasons->empty()) {
    line("held back by", fmt::format("{}", fmt::join(*gpu.throttle_reasons, ", ")));
  }
  line("set clocks", gpu.access.allowed ? "yes: " + gpu.access.reason
                                        : fmt::format("no: {}\nto mend: {}", gpu.access.reason, gpu.access.mend));
  for (const DeviceError& problem : gpu.problems) line("problem", problem.what());
  return text;
}

std::string text_of(const CpuReport& cpu) {
  std::string text = fmt::format("{}  {}", cpu.label, cpu.name);
  if (cpu.readable) return text + (cpu.memory ? ", with its memory's energy\n" : "\n");
  return text + (cpu.problem ? fmt::format("\n  {}\n", indented(cpu.problem->what(), "    ")) : "\n");
}

std::string inventory_text(const Inventory& inventory) {
  std::string text;
  for (const GpuDriver& driver : inventory.machine.drivers) {
    text +=
        fmt::format("driver: {} {}\n", driver.vendor, driver.version.empty() ? "(version not told)" : driver.version);
  }
  if (!text.empty()) text += '\n';
  for (const GpuReport& gpu : inventory.gpus) text += text_of(gpu) + "\n";
  for (const CpuReport& cpu : inventory.cpus) text += text_of(cpu);
  if (inventory.gpus.empty() && inventory.cpus.empty()) {
    text += "There is no GPU and no processor energy counter here.\n";
  }
  std::string missing;
  for (const DeviceError& error : inventory.machine.unavailable) {
    // Counters that may not be read are told with their processor.
    const bool told = std::any_of(inventory.cpus.begin(), inventory.cpus.end(),
                                  [&](const CpuReport& cpu) { return cpu.problem && cpu.label == error.device(); });
    if (!told && inventory.machine.misses(error)) missing += fmt::format("  {}\n", indented(error.what(), "    "));
  }
  if (!missing.empty()) text += fmt::format("\nNot there, or not to be used:\n{}", missing);
  if (inventory.gpus.empty()) {
    text +=
        "\nTo try Flyball without a GPU, simulate some:\n"
        "  flyball sim up --help\n";
  }
  return text;
}

void run_devices(const DevicesOptions& options) {
  const Inventory inventory = take_inventory();
  print_result(options.format == "json" ? inventory_json(inventory) : inventory_text(inventory));
}

}  // namespace

void add_devices_command(const Command& program) {
  const Command command = program.add_subcommand("devices", "list GPUs and processors: what can be measured and set");
  const auto options = std::make_shared<DevicesOptions>();
  add_format(command, options->format);
  command.footer(
      "Asks the drivers of this machine and changes nothing. Whether clocks may be set\n"
      "is judged for this process; if they may not, the list says what to do.\n\n"
      "Examples:\n"
      "  flyball devices\n"
      "  flyball devices --format json");
  command.callback([options] { run_devices(*options); });
}

}  // namespace flyball
