// A simulated powercap tree: the files in which Linux shows the energy of Intel and AMD processors, for a machine whose
// packages are simulated like its boards.
//
// A file cannot compute its contents when it is read. A small process (`flyball sim powercap`, started and ended by
// `sim up` and `sim down`) therefore rewrites the counters every millisecond, as often as the hardware moves them. The
// process writes in place, so that readers that keep a file open see it move, as in sysfs.
#pragma once

#include <filesystem>
#include <string>

#include "sim/machine.h"

namespace flyball {

// Makes the files below the machine's powercap folder, replacing those of an earlier machine. Throws SystemError, also
// for a folder with a powercap tree that Flyball has not made.
void make_powercap_tree(Machine& machine);

// Writes the counters until the machine is down. Once all are written, it notes the calling process in the machine.
void run_powercap_writer(Machine& machine);

// Removes what make_powercap_tree made, and the folder itself if nothing else is in it. Does nothing where there is no
// such tree.
void remove_powercap_tree(const std::filesystem::path& folder);

}  // namespace flyball
