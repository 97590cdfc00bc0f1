// A command that ends with a status of its own choice and has said all it had to say: `run` and `record` pass on that
// of the program they measured.
#pragma once

namespace flyball {

struct ExitStatus {
  int status = 0;
};

}  // namespace flyball
