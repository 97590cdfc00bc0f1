// Runs another program and takes what it prints, with a limit on its time: a cluster engine that hangs must not stop
// its controller.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace flyball {

// A program could not be started, has failed, or took too long. The text is for people and names the command.
class CommandFailure : public SystemError {
 public:
  using SystemError::SystemError;
};

// Returns what `command` (found by PATH, with no input and our environment) prints on standard output. Throws
// CommandFailure where it cannot be started, ends with another status than 0 (with what it printed on standard error),
// or has not ended after `limit`, when it is killed. Blocks; may be called by several threads. Costs a process, some
// milliseconds.
[[nodiscard]] std::string command_output(const std::vector<std::string>& command, Seconds limit);
// The same into `text`, whose memory is used again where it is large enough.
void read_command_output(const std::vector<std::string>& command, Seconds limit, std::string& text);

}  // namespace flyball
