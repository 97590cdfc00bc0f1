#include "device/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "device/device_error.h"

namespace flyball {

SharedLibrary::SharedLibrary(const std::string& name, const std::string& vendor, const std::string& mend)
    : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* why = ::dlerror();
  throw DeviceError(DeviceFault::kNoDriver, vendor,
                    fmt::format("cannot load {}: {}", name, why != nullptr ? why : "unknown reason"), mend);
}

SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace flyball
