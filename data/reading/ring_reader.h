// Asynchronous reads with Linux's io_uring.
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

/// Returns nullptr if the kernel refuses a ring, or the ring does not support reads.
std::unique_ptr<AsyncReader> make_ring_reader(int depth);

}  // namespace pfc
