// Asynchronous reads by Linux's io_uring.
#pragma once

#include <memory>

#include "data/reading/async_reader.h"

namespace pfc {

/// Null where the kernel refuses a ring or has no reads for it.
std::unique_ptr<AsyncReader> make_ring_reader(int depth);

}  // namespace pfc
