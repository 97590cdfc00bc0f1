// Thrown to end the program with this status and no further message: `run` and `record` pass on the status of the
// program that they measured.
#pragma once

namespace flyball {

struct ExitStatus {
  int status = 0;
};

}  // namespace flyball
