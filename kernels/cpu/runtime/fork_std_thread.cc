// Replaces fork_openmp.cc in builds for ThreadSanitizer, which does not understand the
// synchronisation in OpenMP's runtime and would report false races. ThreadSanitizer supports
// std::jthread.
#include <omp.h>

#include <thread>
#include <vector>

#include "kernels/cpu/runtime/threads.h"

namespace pfc {

void Threads::side_by_side(Call call, const void* f) const {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count_));
  for (int part = 0; part < count_; ++part) {
    threads.emplace_back([=] {
      omp_set_num_threads(1);  // oneDNN uses only the calling thread, as in an OpenMP team
      call(f, part);
    });
  }
}

}  // namespace pfc
