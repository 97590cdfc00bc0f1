// Libraries are loaded one after another, each in a thread that may hang (patience.h); the boards of one library are
// opened by one thread each, all at the same time. A library or a board that fails is part of the answer and stops
// none of the others. A GPU is looked for by UUID first, then by its PCI address in one spelling.
#include "driver/gpu_vendors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace flyball {
namespace {

CountedBoards load(const GpuVendor& vendor, Seconds patience) {
  return answer_within(patience, vendor.name, [vendor] { return vendor.load(vendor.libraries); });
}

void open_boards(OpenedGpus& opened, const CountedBoards& boards, std::size_t first_index) {
  const Seconds patience = opening_patience();
  std::vector<PendingAnswer<std::shared_ptr<GpuDevice>>> answers;
  answers.reserve(boards.count);
  for (std::size_t i = 0; i < boards.count; ++i) {
    answers.emplace_back([open = boards.open, i, first_index] { return open(i, first_index + i); });
  }
  for (std::size_t i = 0; i < boards.count; ++i) {
    const std::size_t index = first_index + i;
    // A device that cannot be opened is reported as unavailable.
    try {
      opened.gpus.push_back(answers[i].get(patience, gpu_label(index)));
    } catch (const DeviceError& error) {
      opened.unavailable.push_back(error);
      opened.refused.push_back({index, error, [open = boards.open, i, index] { return open(i, index); }});
    }
  }
}

// Drivers write "0000:3B:00.0" and "00000000:3b:00.0" for the same place.
std::string plain_place(const std::string& pci_bus_id) {
  std::string place = pci_bus_id.substr(std::min(pci_bus_id.find_first_not_of('0'), pci_bus_id.size()));
  std::transform(place.begin(), place.end(), place.begin(), [](unsigned char c) { return std::tolower(c); });
  return place;
}

// UUIDs decide if both are a board's own, since servers of one kind have their boards in the same places. Else the
// places decide: AMD's UUIDs change with the library, and "PCI-..." is a place.
bool is_same(const GpuIdentity& a, const GpuIdentity& b) {
  if (!a.uuid.empty() && a.uuid == b.uuid) return true;
  if (a.uuid.starts_with("GPU-") && b.uuid.starts_with("GPU-")) return false;
  return !a.pci_bus_id.empty() && plain_place(a.pci_bus_id) == plain_place(b.pci_bus_id);
}

}  // namespace

OpenedGpus open_gpus(const std::vector<GpuVendor>& vendors, Seconds patience) {
  OpenedGpus opened;
  std::size_t next_index = 0;
  for (const GpuVendor& vendor : vendors) {
    CountedBoards boards;
    // A driver that is not there is reported as unavailable.
    try {
      boards = load(vendor, patience);
    } catch (const DeviceError& error) {
      opened.unavailable.push_back(error);
      continue;
    }
    opened.drivers.push_back({vendor.name, boards.version});
    open_boards(opened, boards, next_index);
    next_index += boards.count;
  }
  return opened;
}

std::shared_ptr<GpuDevice> find_gpu(const GpuIdentity& wanted, const std::vector<GpuVendor>& vendors) {
  const bool by_number = wanted.uuid.empty() && wanted.pci_bus_id.empty();
  const std::string label = gpu_label(wanted.index);
  std::size_t next_index = 0;
  // Why the GPU may exist although it was not found; else the first driver that is not there.
  std::optional<DeviceError> missing;
  for (const GpuVendor& vendor : vendors) {
    CountedBoards boards;
    try {
      boards = load(vendor, opening_patience());
    } catch (const DeviceError& error) {
      // Nobody knows now how many GPUs come before those of the next vendor, and so which number is whose.
      if (by_number && error.fault() != DeviceFault::kNoDriver) throw;
      if (!missing || missing->fault() == DeviceFault::kNoDriver) missing = error;
      continue;
    }
    const std::size_t board = wanted.index - next_index;  // of this vendor, if it is below the count
    if (by_number && board < boards.count) {
      return answer_within(opening_patience(), label,
                           [open = boards.open, board, index = wanted.index] { return open(board, index); });
    }
    OpenedGpus opened;
    if (!by_number) open_boards(opened, boards, next_index);
    for (const auto& gpu : opened.gpus) {
      if (is_same(wanted, gpu->identity())) return gpu;
    }
    if (!opened.unavailable.empty()) missing = opened.unavailable.front();
    next_index += boards.count;
  }
  if (missing && (next_index == 0 || missing->fault() != DeviceFault::kNoDriver)) throw DeviceError(*missing);
  if (by_number) {
    throw DeviceError(DeviceFault::kLost, label, fmt::format("there is no such GPU; this machine has {}", next_index),
                      "count from 0, as `flyball devices` does");
  }
  throw DeviceError(
      DeviceFault::kLost, label,
      fmt::format("none of the {} GPUs here is {}", next_index, wanted.uuid.empty() ? wanted.pci_bus_id : wanted.uuid),
      "`flyball devices` lists those that this process sees");
}

}  // namespace flyball
