// Brings simulated machines up and down: the shared memory, the powercap tree, and the process that writes it.
#pragma once

#include <memory>
#include <string>

#include "sim/machine.h"
#include "sim/specification.h"

namespace flyball {

// raise_machine() brings a machine up, or returns the one that is up already. Throws UsageError where a machine of that
// name is up that was made to another specification, and SystemError where the system refuses; then nothing is left
// behind.
struct RaisedMachine {
  std::shared_ptr<Machine> machine;
  bool was_up = false;
};
[[nodiscard]] RaisedMachine raise_machine(const MachineRequest& request);

// Returns the machine's owner, as "alice (uid 1000)"; empty where this is the process's own user.
[[nodiscard]] std::string foreign_owner(const Machine& machine);

// Takes a machine down, and returns when the process that writes its powercap tree has ended and the tree is gone;
// false where there was no machine. Throws SystemError where it is another user's, which is left as it is.
bool lower_machine(const std::string& name);

// Returns the machine of that name. Throws UsageError, which says how to make one, where there is none.
[[nodiscard]] std::shared_ptr<Machine> required_machine(const std::string& name);

// Returns the text with "flyball sim" as its reader has to type it: "flyball-sim" in the program that has these
// commands alone.
[[nodiscard]] std::string as_typed(std::string text);

// Returns the folder of the simulated vendor library beside this program, which LD_LIBRARY_PATH has to name. Throws
// SystemError where it is not there.
[[nodiscard]] std::string simulated_library_folder();

}  // namespace flyball
