// The one family of exceptions. Thrown for bad input and failed systems, never for our own bugs (those are
// assertions), and caught in exactly three places: the command line's main, the HTTP handler, the C API.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace flyball {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where in an input the trouble is. Line and column count from 1; 0 means that they do not apply.
struct InputLocation {
  std::string source;  // a file's path, "<stdin>", or a command line option
  std::size_t line = 0;
  std::size_t column = 0;
};

// Bad input: what is wrong, where, and how to mend it. Exit status 3 on the command line.
class InputError : public Error {
 public:
  // `mend` says what the user can do; it may be empty only where `problem` already says it.
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
