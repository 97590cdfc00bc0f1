// The one family of exceptions, for bad input and failed systems. Our own bugs are assertions.
//
// An error ends where there is somebody to tell of it:
// - main() of the command line (cli/main.cpp): a message and an exit status;
// - a request (net/connection.cpp, net/router.h): a response with an HTTP status;
// - a thread, and each piece of its work (base/contain.h): a line of the log, after which the thread goes on;
// - a function that foreign code calls (api/c_api.cpp, sim/c_api.cpp, sim/nvml_calls.h): a number.
//
// Other code catches for one of four reasons only: to throw again, as one of this family or after undoing something; to
// hand the error to another thread; because the failure is part of the answer (a device that does not answer, a damaged
// row among others, a try that may fail); and in destructors. A `catch` that drops an error says why in a comment.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace flyball {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The place of an error in an input. Line and column count from 1; 0 means that they do not apply.
struct InputLocation {
  std::string source;  // a file's path, "<stdin>", or a command line option
  std::size_t line = 0;
  std::size_t column = 0;
};

// Bad input: what is wrong, where, and how to mend it. Exit status 3 on the command line.
class InputError : public Error {
 public:
  // `mend` says what the user can do. It may be empty only where `problem` already says that.
  InputError(InputLocation where, const std::string& problem, const std::string& mend);

  [[nodiscard]] const InputLocation& where() const { return where_; }

 private:
  InputLocation where_;
};

// A request that no input can satisfy as it was asked (unknown option value, contradictory options). Exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The operating system or a device refused (file cannot be read, disk is full). Exit status 1.
class SystemError : public Error {
 public:
  using Error::Error;
};

}  // namespace flyball
