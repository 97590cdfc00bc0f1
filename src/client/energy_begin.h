// From where the energies of a node count, for who looks at it again and again.
#pragma once

#include "wire/agent_messages.h"

namespace flyball {

// The energies of a look `now` are told as what they are above those of the look `begin`. Changes `begin` where that
// would be wrong otherwise, given the look `before` this one:
// - processors count from their agent's start, and what they had counted before it was restarted is added;
// - a GPU that could not be read at first counts from the first look at which it could be.
void move_energy_begin(NodeStatus& begin, const NodeStatus& before, const NodeStatus& now);

}  // namespace flyball
