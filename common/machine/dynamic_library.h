// A shared library that is loaded at run time if present, so that no program has to link it.
#pragma once

#include <memory>
#include <string>

namespace pfc {

/// Owns the loaded library. Functions found in it must not be used after the object is destroyed.
class DynamicLibrary {
 public:
  /// Loads the library. A name ("libcuda.so.1") is searched like the dynamic linker does; a path
  /// is used as it is. Does not throw if the library is absent.
  explicit DynamicLibrary(const std::string& name);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  /// Returns the dynamic linker's error; empty if loaded.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Returns the function of that name; nullptr if the library does not have it or is not loaded.
  /// The caller must specify the correct type.
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  [[nodiscard]] void* symbol(const char* name) const;

  std::unique_ptr<void, Close> handle_;
  std::string problem_;
};

}  // namespace pfc
