// NVIDIA's tracing library (CUPTI), loaded at run time: no program links it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/machine/dynamic_library.h"

namespace pfc {

/// Declarations copied from cupti_activity.h, which is not on every machine that builds pfc. New
/// releases of CUPTI only append fields to records. The fields declared here have kept their
/// offsets since CUDA 9, and are checked against the header if the build has it.
class Cupti {
 public:
  using Result = int;  ///< CUptiResult
  enum Kind : std::uint32_t { kMemcpy = 1, kMemset = 2, kConcurrentKernel = 10 };
  enum Flush : std::uint32_t { kComplete = 0, kForced = 1 };

  static constexpr Result kSuccess = 0;
  static constexpr Result kNotCompatible = 14;
  static constexpr Result kNotInitialized = 15;
  static constexpr Result kInsufficientPrivileges = 35;
  static constexpr Result kMultipleSubscribers = 39;
  static constexpr Result kVirtualGpuPrivileges = 40;
  static constexpr Result kUnknown = 999;
  static constexpr std::size_t kRecordAlignment = 8;

  struct Record {
    std::uint32_t kind;
  };
  struct Kernel {
    std::uint32_t kind;
    std::uint32_t unused[3];
    std::uint64_t start, end;  ///< ns on CUPTI's clock; 0 if unknown
    std::uint64_t completed;
    std::uint32_t device, context, stream;
    std::uint32_t more_unused[13];
    const char* name;  ///< mangled; owned by CUPTI
  };
  struct Memcpy {
    std::uint32_t kind;
    std::uint8_t copy_kind, source, target, flags;
    std::uint64_t bytes, start, end;
    std::uint32_t device, context, stream;
  };
  struct Memset {
    std::uint32_t kind;
    std::uint32_t value;
    std::uint64_t bytes, start, end;
    std::uint32_t device, context, stream;
  };
  using Request = void(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
  using Complete = void(void* context, std::uint32_t stream, std::uint8_t* buffer,
                        std::size_t bytes, std::size_t valid_bytes);

  /// Loads the first of these libraries that is present. Does not throw if all are absent.
  explicit Cupti(const std::vector<std::string>& libraries = usual_libraries());
  /// Returns names for the dynamic linker, then paths in the usual folders of the CUDA toolkit.
  static std::vector<std::string> usual_libraries();

  [[nodiscard]] bool loaded() const { return library_.loaded(); }

  /// Calls a function. Returns kUnknown if this library does not have it, or if none is loaded.
  template <typename... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* const function = library_.find<Result(Arguments...)>(name);
    return function == nullptr ? kUnknown : function(arguments...);
  }
  /// Returns why a call failed and, if known, what to do.
  [[nodiscard]] std::string reason(const char* function, Result result) const;

 private:
  const DynamicLibrary library_;
};

}  // namespace pfc
