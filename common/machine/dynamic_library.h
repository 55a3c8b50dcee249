// A shared library that is loaded where it is there, so that no program has to link it.
#pragma once

#include <memory>
#include <string>

namespace pfc {

/// Owns the loaded library. Functions found in it must not outlive the object.
class DynamicLibrary {
 public:
  /// A name ("libcuda.so.1") is looked for as the dynamic linker does; a path is taken as it is.
  /// Never throws for absence.
  explicit DynamicLibrary(const std::string& name);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  /// Why it is not loaded, in the dynamic linker's words; empty when it is.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The function of that name; nullptr where the library has none, or is not loaded. The caller
  /// answers for its type.
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
