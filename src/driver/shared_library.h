// A vendor's library, loaded while the program runs, so that building and starting need none.
#pragma once

#include <string>
#include <vector>

namespace flyball {

// Keeps the library loaded for as long as the object lives. Its symbols stay private (RTLD_LOCAL), so that a library
// that the measured program brings along is not mixed with ours.
class SharedLibrary {
 public:
  // Loads the first of `names` that can be loaded; each is a name that the dynamic loader looks up, or a path. Throws
  // DeviceError, kNoDriver, with `mend` and what the loader said of the first name.
  SharedLibrary(const std::vector<std::string>& names, const std::string& vendor, const std::string& mend);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // Returns null where the library has no such symbol.
  [[nodiscard]] void* find(const char* symbol) const;

 private:
  void* handle_ = nullptr;
};

// A function of a library, under the first of its names that the library has; where it has none, a call returns
// `Absent`, like a device that cannot do it. Valid while the library is loaded.
template <class Function, auto Absent>
class LibraryCall;
template <class Result, class... Arguments, auto Absent>
class LibraryCall<Result(Arguments...), Absent> {
 public:
  template <class... Names>
  explicit LibraryCall(const SharedLibrary& library, Names... names) {
    void* found = nullptr;
    ((found = found != nullptr ? found : library.find(names)), ...);
    function_ = reinterpret_cast<Result (*)(Arguments...)>(found);
  }

  [[nodiscard]] bool is_there() const { return function_ != nullptr; }
  Result operator()(Arguments... arguments) const { return function_ != nullptr ? function_(arguments...) : Absent; }

 private:
  Result (*function_)(Arguments...) = nullptr;
};

}  // namespace flyball
