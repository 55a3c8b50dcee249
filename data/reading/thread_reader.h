// Asynchronous reads by threads that call pread(2).
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

/// Starts at most 16 threads, or `depth` if that is smaller. Further reads are queued.
std::unique_ptr<AsyncReader> make_thread_reader(int depth);

}  // namespace pfc
