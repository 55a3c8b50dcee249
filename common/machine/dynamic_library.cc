#include "common/machine/dynamic_library.h"

#include <dlfcn.h>

namespace pfc {

// RTLD_NODELETE: drivers start threads and register exit handlers, which outlive dlclose().
DynamicLibrary::DynamicLibrary(const std::string& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  problem_ = why == nullptr ? name + " cannot be loaded" : why;
}

void DynamicLibrary::Close::operator()(void* handle) const { dlclose(handle); }

void* DynamicLibrary::symbol(const char* name) const {
  return loaded() ? dlsym(handle_.get(), name) : nullptr;
}

}  // namespace pfc
