// For ThreadSanitizer, which does not see how OpenMP's runtime hands work over and waits for it. So
// what it reports of our loops is theirs.
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
      omp_set_num_threads(1);  // oneDNN does not fork again inside a part
      call(f, part);
    });
  }
}

}  // namespace pfc
