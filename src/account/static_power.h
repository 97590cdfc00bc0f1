// Static and dynamic energy: what a device draws whether or not it works, and what it draws because it works.
//
// A row's static energy is its share of the device's time at the power that the device draws while nothing runs on it,
// but never more than the row's energy; its dynamic energy is the rest. Rows that run at once share the time as they
// share the power. The power while nothing runs is given, or that of Footprint's `quiet`.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "account/footprint.h"
#include "base/units.h"

namespace flyball {

using StaticPowers = std::map<std::string, Watts, std::less<>>;  // by device

// Sets the static energies of rows and devices where the power is known, and says in notes where it is not. Of devices
// that are divided among processes nothing is told. `option` is what users call the given powers. Cost O(rows log
// devices).
void tell_static_energy(Footprint& footprint, const StaticPowers& given, std::string_view option,
                        FootprintNotes& notes);

}  // namespace flyball
