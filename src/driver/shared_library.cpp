// dlopen with RTLD_NOW and RTLD_LOCAL, dlsym and dlclose.
#include "driver/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "driver/device_error.h"

namespace flyball {

SharedLibrary::SharedLibrary(const std::vector<std::string>& names, const std::string& vendor,
                             const std::string& mend) {
  std::string why;
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    const char* words = ::dlerror();
    if (why.empty() && words != nullptr) why = words;
  }
  throw DeviceError(DeviceFault::kNoDriver, vendor, fmt::format("cannot load {}", why.empty() ? names.front() : why),
                    mend);
}

SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace flyball
