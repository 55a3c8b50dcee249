#include "kernels/cpu/runtime/threads.h"

namespace pfc {

void Threads::side_by_side(Call call, const void* f) const {
#pragma omp parallel for schedule(static, 1) num_threads(count_)
  for (int part = 0; part < count_; ++part) call(f, part);
}

}  // namespace pfc
