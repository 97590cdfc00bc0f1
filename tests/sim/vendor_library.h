// The simulated libnvidia-ml.so.1 as programs meet it: loaded at run time, its calls found by name.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "driver/nvml_abi.h"

namespace flyball::testing {

inline std::string simulated_library() {
  return (std::filesystem::path(FLYBALL_PROGRAM).parent_path() / "sim" / "libnvidia-ml.so.1").string();
}

class VendorLibrary {
 public:
  VendorLibrary() : library_(::dlopen(simulated_library().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
  }
  ~VendorLibrary() { ::dlclose(library_); }
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

  [[nodiscard]] void* find(const std::string& name) const { return ::dlsym(library_, name.c_str()); }

  // library.call<decltype(nvmlInit_v2)>("nvmlInit_v2")()
  template <class Function>
  [[nodiscard]] Function* call(const std::string& name) const {
    void* found = find(name);
    if (found == nullptr) throw std::runtime_error("the library has no " + name);
    return reinterpret_cast<Function*>(found);
  }

 private:
  void* library_;
};

// NVML(library, nvmlInit_v2)() calls it.
#define NVML(library, name) (library).call<decltype(::flyball::name)>(#name)

}  // namespace flyball::testing
