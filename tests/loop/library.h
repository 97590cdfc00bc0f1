// libflyball.so in a program that loads it at run time. It stays loaded.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>

#include "flyball/flyball.h"

namespace flyball::testing {

inline void* load(const std::filesystem::path& path) {
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw std::runtime_error(dlerror());
  return loaded;
}

// What each test adds to: members, and in the constructor where they are found.
class Library {
 public:
  Library() : loaded_(load(std::filesystem::path(FLYBALL_PROGRAM).parent_path() / "lib/libflyball.so")) {
    find(last_error, "flyball_last_error");
  }

  [[nodiscard]] bool has(const char* name) const { return dlsym(loaded_, name) != nullptr; }

  template <class Function>
  [[nodiscard]] Function* function(const char* name) const {
    void* found = dlsym(loaded_, name);
    if (found == nullptr) throw std::runtime_error(name);
    return reinterpret_cast<Function*>(found);
  }

  decltype(&flyball_last_error) last_error;

 protected:
  template <class Function>
  void find(Function*& pointer, const char* name) {
    pointer = function<Function>(name);
  }

 private:
  void* loaded_;
};

}  // namespace flyball::testing
