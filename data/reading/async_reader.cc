#include "data/reading/async_reader.h"

#include "common/error.h"

namespace pfc {

std::unique_ptr<AsyncReader> make_async_reader(int depth, ReadMethod method) {
  check(depth > 0, "make_async_reader: no depth");
  if (method != ReadMethod::kThreads) {
    auto ring = make_ring_reader(depth);
    if (ring != nullptr || method == ReadMethod::kRing) return ring;
  }
  return make_thread_reader(depth);
}

}  // namespace pfc
