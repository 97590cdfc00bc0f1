// A vendor's library, loaded while the program runs, so that building and starting need none.
#pragma once

#include <string>
#include <vector>

namespace flyball {

// Keeps the library loaded for its own life. Symbols stay private to it (RTLD_LOCAL), so that a library that the
// measured program brings along is not mixed with ours.
class SharedLibrary {
 public:
  // The first of `names` that can be loaded; each is what the dynamic loader looks up, or a path. Throws DeviceError,
  // kNoDriver, with the loader's words about the first and `mend`.
  SharedLibrary(const std::vector<std::string>& names, const std::string& vendor, const std::string& mend);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // Null where the library has no such symbol.
  [[nodiscard]] void* find(const char* symbol) const;

  // The first of `names` that is there; null where none is.
  template <class Function, class... Names>
  void resolve(Function*& function, Names... names) const {
    void* found = nullptr;
    ((found = found != nullptr ? found : find(names)), ...);
    function = reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_ = nullptr;
};

// A function of a library, under the first of its names that is there; without any it answers `absent`, as a device does
// that cannot. Valid while the library is loaded.
template <class Function, auto absent>
class LibraryCall;
template <class Result, class... Arguments, auto absent>
class LibraryCall<Result(Arguments...), absent> {
 public:
  template <class... Names>
  explicit LibraryCall(const SharedLibrary& library, Names... names) {
    library.resolve(function_, names...);
  }

  [[nodiscard]] bool is_there() const { return function_ != nullptr; }
  Result operator()(Arguments... arguments) const { return function_ != nullptr ? function_(arguments...) : absent; }

 private:
  Result (*function_)(Arguments...) = nullptr;
};

}  // namespace flyball
