// Bringing simulated machines up and down: the shared memory, the powercap tree, and the process that writes it.
#pragma once

#include <memory>
#include <string>

#include "sim/machine.h"
#include "sim/specification.h"

namespace flyball {

// The machine, and whether it was there already. Throws UsageError where one of that name is up that was asked for with
// other words, SystemError where the system refuses; then nothing is left behind.
struct RaisedMachine {
  std::shared_ptr<Machine> machine;
  bool was_up = false;
};
[[nodiscard]] RaisedMachine raise_machine(const MachineRequest& request);

// "alice (uid 1000)"; empty for this process's own user.
[[nodiscard]] std::string foreign_owner(const Machine& machine);

// False where there was none; SystemError where it is another user's, which is left as it is. Returns when the process
// that writes its powercap tree has ended and the tree is gone.
bool lower_machine(const std::string& name);

// The machine of that name; UsageError, saying how to make one, where there is none.
[[nodiscard]] std::shared_ptr<Machine> required_machine(const std::string& name);

// The folder that LD_LIBRARY_PATH has to name: where the simulated vendor library stands beside this program. Throws
// SystemError where it is not there.
[[nodiscard]] std::string simulated_library_folder();

}  // namespace flyball
