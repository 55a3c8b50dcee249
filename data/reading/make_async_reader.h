// Selects the method for asynchronous reads.
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

enum class ReadMethod {
  kAuto,     ///< io_uring if the kernel supports it, otherwise threads
  kRing,     ///< io_uring: used by one thread, with few system calls
  kThreads,  ///< pread(2) on threads, one call per read
};

/// Containers often forbid io_uring, and kernels before 5.6 lack it. kAuto then uses threads, and
/// kRing returns nullptr. REQUIRES: depth > 0.
std::unique_ptr<AsyncReader> make_async_reader(int depth, ReadMethod method = ReadMethod::kAuto);

}  // namespace pfc
