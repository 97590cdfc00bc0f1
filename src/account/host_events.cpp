// Copies keep the order of time, since they begin when their original does.
#include "account/host_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "account/processor_share.h"

namespace flyball {

bool HostEvents::next(TraceEvent& event) {
  if (has_original_ && original_.device < copies_.size() && told_ < copies_[original_.device].size()) {
    event = original_;
    event.device = copies_[original_.device][told_++];
    return true;
  }
  has_original_ = source_.next(original_);
  told_ = 0;
  event = original_;
  return has_original_;
}

std::vector<std::vector<DeviceId>> host_copies(const std::vector<DeviceId>& heard,
                                               const std::vector<DeviceId>& measured, const DeviceTable& devices) {
  std::vector<std::vector<DeviceId>> copies;
  const std::set<DeviceId> silent(measured.begin(), measured.end());
  for (const DeviceId device : silent) {
    const std::optional<int> socket = socket_named(devices.name(device));
    if (!socket || std::find(heard.begin(), heard.end(), device) != heard.end()) continue;
    const std::string own = fmt::format("CPU:{}", *socket);
    const bool has_own =
        std::any_of(heard.begin(), heard.end(), [&](DeviceId one) { return devices.name(one) == own; });
    for (const DeviceId source : std::set<DeviceId>(heard.begin(), heard.end())) {
      const std::string& name = devices.name(source);
      if (has_own ? name != own : !name.starts_with("CPU:")) continue;
      copies.resize(std::max<std::size_t>(copies.size(), source + 1));
      copies[source].push_back(device);
    }
  }
  return copies;
}

std::string note_on_copies(const std::vector<std::vector<DeviceId>>& copies, const DeviceTable& devices) {
  std::vector<std::string> hosts;
  std::set<std::string> names;
  for (std::size_t source = 0; source < copies.size(); ++source) {
    if (!copies[source].empty()) hosts.push_back(devices.name(static_cast<DeviceId>(source)));
    for (const DeviceId copy : copies[source]) names.insert(devices.name(copy));
  }
  if (names.empty()) return {};
  return fmt::format("{}: no event is on {}; the program's part is that of what ran on {} at the time",
                     fmt::join(names, ", "), names.size() == 1 ? "it" : "them", fmt::join(hosts, ", "));
}

}  // namespace flyball
