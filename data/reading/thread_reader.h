// Asynchronous reads by threads that call pread(2).
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

/// Starts at most 16 threads, and `depth` where that is fewer; what is more waits for one of them.
std::unique_ptr<AsyncReader> make_thread_reader(int depth);

}  // namespace pfc
