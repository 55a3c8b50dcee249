#include "kernels/cpu/runtime/threads.h"

#include <omp.h>

#include "common/machine/cores.h"

namespace pfc {

Threads::Threads(int count) : count_(count > 0 ? count : threads_of_worker(1)) {}

void Threads::apply() const {
  if (omp_get_max_threads() != count_) omp_set_num_threads(count_);
}

}  // namespace pfc
