// Reads data/devices/MODEL.toml through DataTable, which names the key that is wrong. UUIDs are made from a hash
// (FNV-1a) of the machine's name and model, and from the board's index, so that they are the same each time.
#include "sim/specification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fingerprint.h"
#include "driver/nvml_abi.h"
#include "profile/data_file.h"
#include "profile/gpu_model.h"
#include "profile/workload_model.h"
#include "sim/chance.h"

namespace flyball {
namespace {

constexpr unsigned kVendorNvidia = 0x10DE;

struct NamedNumber {
  std::string_view name;
  unsigned number;
};

constexpr NamedNumber kBrands[] = {
    {"tesla", kNvmlBrandTesla}, {"geforce", kNvmlBrandGeforce}, {"nvidia", kNvmlBrandNvidia}};
constexpr NamedNumber kArchitectures[] = {
    {"pascal", kNvmlArchPascal},      {"volta", kNvmlArchVolta}, {"turing", kNvmlArchTuring},
    {"ampere", kNvmlArchAmpere},      {"ada", kNvmlArchAda},     {"hopper", kNvmlArchHopper},
    {"blackwell", kNvmlArchBlackwell}};

template <std::size_t Count>
unsigned number_named(const DataTable& table, std::string_view key, const NamedNumber (&known)[Count]) {
  const auto name = table.get<std::string>(key);
  for (const NamedNumber& one : known) {
    if (one.name == name) return one.number;
  }
  throw table.bad(key);
}

// A time of a sensor in milliseconds, which has to fall on the grid on which boards remember their energy.
Nanoseconds sensor_time(const DataTable& table, std::string_view key, Nanoseconds most) {
  const Nanoseconds time = table.get<std::int64_t>(key) * 1'000'000;
  if (time <= 0 || time > most || time % kSimHistoryStep != 0) throw table.bad(key);
  return time;
}

SensorSpec read_sensor(const DataTable& table) {
  constexpr Nanoseconds kMost = (static_cast<Nanoseconds>(kSimHistory) - 1) * kSimHistoryStep;
  const SensorSpec sensor{sensor_time(table, "window_ms", kMost), sensor_time(table, "period_ms", kMost)};
  if (sensor.window + sensor.period > kMost) throw table.bad("window_ms");
  return sensor;
}

void read_clocks(const DataTable& board, const GpuModel& model, BoardSpec& spec) {
  spec.minimum = model.minimum;
  spec.maximum = model.maximum;
  spec.step = model.step;
  const auto memory = board.list<double>("memory_mhz");
  if (memory.empty() || memory.size() > kSimMemoryClocks) throw board.bad("memory_mhz");
  spec.memory_clock_count = static_cast<std::uint32_t>(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) spec.memory_clocks[i] = Megahertz(memory[i]);
  if (model.voltage.size() > kSimVoltagePoints) throw board.bad("voltage");
  spec.voltage_count = static_cast<std::uint32_t>(model.voltage.size());
  std::copy(model.voltage.begin(), model.voltage.end(), spec.voltage.begin());
}

void read_sensors(const DataTable& sensor, BoardSpec& spec) {
  spec.power = read_sensor(sensor.table("power"));
  spec.instant = read_sensor(sensor.table("instant"));
  if (const auto average = sensor.find_table("average")) spec.average = read_sensor(*average);
  spec.sensor_jitter = Watts(sensor.get<double>("jitter_w"));
  if (!(spec.sensor_jitter >= Watts(0))) throw sensor.bad("jitter_w");
  spec.energy_period = sensor_time(sensor, "energy_period_ms", 1'000'000'000);
}

void read_thermal(const DataTable& thermal, BoardSpec& spec) {
  spec.idle_celsius = thermal.get<double>("idle_c");
  spec.full_celsius = thermal.get<double>("full_c");
  spec.thermal_seconds = thermal.get<double>("time_constant_s");
  spec.slowdown_celsius = thermal.get<double>("slowdown_c");
  spec.shutdown_celsius = thermal.get<double>("shutdown_c");
  spec.throttle = Megahertz(thermal.get<double>("throttle_mhz"));
}

// What tells real boards from ideal ones, before each gets its own. docs/manual/simulated-boards.md has the sources.
BoardCharacter read_character(const DataTable& root, const BoardSpec& spec) {
  constexpr double kSlowest = 9.0 / 6.6;  // clock change: 4 to 9 ms were measured, 6.6 ms on average
  BoardCharacter character{};
  // Assumed for boards of which nothing is known: in the middle of those of which something is.
  double reached = 0.9 * spec.maximum.value();
  character.floor = 0.4;
  character.exponent = 5.0;
  if (const auto measured = root.find_table("measured")) {
    reached = measured->get<double>("limit_reached_mhz");
    character.floor = measured->get<double>("power_floor");
    character.exponent = measured->get<double>("power_exponent");
  }
  const double part = std::pow(reached / spec.maximum.value(), character.exponent);
  character.full = spec.phase_limit / (character.floor + (1.0 - character.floor) * part);
  character.load_noise = 0.24;
  character.heat_per_kelvin = 0.001;
  character.hold_mean = 6'600'000;
  character.hold_spread = static_cast<Nanoseconds>((kSlowest - 1.0) * static_cast<double>(character.hold_mean));
  character.counter_jitter = Joules(0.1);
  return character;
}

// Makes a board like no other of its model; `seed` is the machine's.
void give_character(BoardSpec& spec, const BoardCharacter& usual, std::uint32_t seed, std::size_t index,
                    std::optional<Seconds> switch_latency) {
  BoardCharacter& own = spec.character;
  own = usual;
  own.seed = mix(mix(seed) + index) | 1u;
  std::uint64_t draws = 0;
  const auto within = [&](double least, double most) {
    return least + (most - least) * 0.5 * (1.0 + evenly(own.seed ^ ~draws++));
  };
  own.slowness = within(0.985, 1.015);
  own.hunger = within(0.97, 1.03);
  own.gain = within(0.95, 1.05);
  own.noise = within(0.0002, 0.0026);
  // A fifth of the spread tells boards apart, the rest their changes.
  const double scale = switch_latency ? switch_latency->value() / to_seconds(own.hold_mean).value() : 1.0;
  const auto spread = static_cast<double>(own.hold_spread) * scale;
  own.hold_mean = static_cast<Nanoseconds>(static_cast<double>(own.hold_mean) * scale + within(-0.2, 0.2) * spread);
  own.hold_spread = static_cast<Nanoseconds>(0.8 * spread);
  own.ramp = static_cast<Nanoseconds>(within(0.5e6, 2e6));
  own.counter_lag = kSimHistoryStep * static_cast<Nanoseconds>(within(2.0, 9.0));
  spec.idle = spec.idle * own.hunger;
  spec.waiting = spec.waiting * own.hunger;
}

// What all boards of one model have in common.
BoardSpec read_board(const GpuModel& model) {
  const std::string path = fmt::format("devices/{}.toml", model.name);
  const toml::table file = parse_data_file(path);
  const DataTable root(path, file);
  const DataTable board = root.table("board");

  BoardSpec spec{};
  set_text(spec.model, model.name);
  set_text(spec.product, board.get<std::string>("product"));
  spec.brand = number_named(board, "brand", kBrands);
  spec.architecture = number_named(board, "architecture", kArchitectures);
  const auto capability = board.list<int>("compute_capability");
  if (capability.size() != 2) throw board.bad("compute_capability");
  spec.capability_major = capability[0];
  spec.capability_minor = capability[1];
  spec.cores = board.get<unsigned>("cores");
  spec.memory_bytes = board.get<std::uint64_t>("memory_mib") * 1'048'576;
  spec.pci_device_id = board.get<unsigned>("pci_device") << 16 | kVendorNvidia;
  read_clocks(board, model, spec);
  spec.busy = model.busy;
  spec.waiting = Watts(board.get<double>("waiting_w"));
  spec.idle = Watts(board.get<double>("idle_w"));
  spec.phase_limit = model.phase_limit;
  spec.limit = model.limit;
  spec.limit_minimum = Watts(board.get<double>("limit_minimum_w"));
  spec.limit_maximum = Watts(board.get<double>("limit_maximum_w"));
  spec.switch_latency = to_nanoseconds(Seconds(board.get<double>("switch_latency_ms") * 1e-3));
  read_sensors(root.table("sensor"), spec);
  read_thermal(root.table("thermal"), spec);
  spec.character = read_character(root, spec);
  return spec;
}

// The boards of two machines have different UUIDs, and those of one machine always the same.
void number_board(BoardSpec& spec, const MachineRequest& request, std::size_t index) {
  const std::uint64_t hash = hash_text(request.name + "/" + spec.model);
  set_text(spec.uuid, fmt::format("GPU-{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", hash >> 32, (hash >> 16) & 0xFFFF,
                                  hash & 0xFFF, (hash >> 4) & 0xFFF, index + 1));
  set_text(spec.serial, fmt::format("5117{:09}", index + 1));
  spec.pci_domain = 0;
  spec.pci_bus = static_cast<unsigned>(7 + 8 * index);
  set_text(spec.pci_bus_id, fmt::format("0000:{:02X}:00.0", spec.pci_bus));
  // Sensors of different boards are not in step.
  constexpr Nanoseconds kShift = 15'000'000;
  spec.sensor_phase = static_cast<Nanoseconds>(index) * kShift % spec.power.period;
}

}  // namespace

MachineSpec specify_machine(const MachineRequest& request) {
  if (request.gpus < 1 || request.gpus > kSimBoards) {
    throw UsageError(fmt::format("a simulated machine has 1 to {} GPUs, not {}", kSimBoards, request.gpus));
  }
  if (!(request.time_scale >= 0.0 && request.time_scale <= 1000.0)) {
    throw UsageError(fmt::format("a time scale is from 0 to 1000, not {}", request.time_scale));
  }
  const GpuModel model = load_gpu_model(request.gpu);
  BoardSpec board = read_board(model);
  board.forward = model.forward;
  board.backward = model.backward;
  if (!request.workload.empty()) {
    const WorkloadModel workload = load_workload_model(request.workload, model);
    board.forward = workload.forward;
    board.backward = workload.backward;
  }
  MachineSpec machine;
  machine.time_scale = request.time_scale;
  machine.powercap = request.powercap;
  machine.cpu.packages = request.gpus > 4 ? 2 : 1;
  if (request.powercap_range > 0) machine.cpu.range_microjoules = request.powercap_range;
  machine.description = fmt::format("{} x {}", request.gpus, model.name);
  if (!request.workload.empty()) machine.description += fmt::format(", {}", request.workload);
  machine.description += request.seed == 0   ? ", ideal"
                         : request.seed == 1 ? ""
                                             : fmt::format(", seed {}", request.seed);
  if (request.switch_latency) {
    machine.description += fmt::format(", clock changes in {} s", request.switch_latency->value());
  }
  if (request.time_scale != 1.0) machine.description += fmt::format(", time scale {}", request.time_scale);
  if (!request.powercap.empty()) {
    machine.description += fmt::format(", powercap in {}", request.powercap);
    if (request.powercap_range > 0) machine.description += fmt::format(" to {} uJ", request.powercap_range);
  }
  for (std::size_t i = 0; i < request.gpus; ++i) {
    BoardSpec& own = machine.boards.emplace_back(board);
    number_board(own, request, i);
    if (request.seed == 0) {
      own.character = {};
      if (request.switch_latency) own.switch_latency = to_nanoseconds(*request.switch_latency);
    } else {
      give_character(own, board.character, request.seed, i, request.switch_latency);
    }
  }
  return machine;
}

}  // namespace flyball
