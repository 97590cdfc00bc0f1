// Hands the caller's options to the engine of `flyball account` and copies its result into the public structures.
#include "flyball/account.h"

#include <utility>

#include "account/account_options.h"
#include "account/account_run.h"
#include "account/footprint_file.h"

namespace flyball {

AccountedEnergy account(const std::string& options) {
  const AccountRequest request = read_account_options("the options", options);
  AccountResult result = account_runs(request);
  const Footprint& footprint = result.asked(request);
  AccountedEnergy energy;
  for (const FootprintRow& row : footprint.rows) {
    energy.rows.push_back({row.name, row.device, std::string(name_of(row.phase)), row.energy.value(), row.busy.value(),
                           row.powered.value(), row.energy_deviation.value(), row.error.value(),
                           static_cast<int>(row.group)});
  }
  for (const FootprintDevice& device : footprint.devices) {
    energy.devices.push_back({device.device, device.measured.value(), device.attributed.value(), device.idle.value(),
                              device.outside.value(),
                              (device.other_processes + device.system + device.monitor).value()});
  }
  energy.runs = footprint.runs;
  energy.profiled_s = footprint.profiled.value();
  energy.json = footprint_json(footprint, result.notes);
  energy.notes = std::move(result.notes);
  return energy;
}

}  // namespace flyball
