// Chooses how files are read beside what the caller does.
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

enum class ReadMethod {
  kAuto,     ///< the ring where the kernel has it, otherwise threads
  kRing,     ///< io_uring, which one thread feeds and which needs few system calls
  kThreads,  ///< pread(2) on threads: one read for each
};

/// Containers often refuse io_uring, and kernels before 5.6 lack it: then kAuto takes threads, and
/// kRing gives null. REQUIRES: depth > 0.
std::unique_ptr<AsyncReader> make_async_reader(int depth, ReadMethod method = ReadMethod::kAuto);

}  // namespace pfc
