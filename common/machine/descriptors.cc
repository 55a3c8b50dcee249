#include "common/machine/descriptors.h"

#include <sys/resource.h>

namespace pfc {

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool descriptors_are_short(int newest, int held_back) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  return static_cast<rlim_t>(newest) + static_cast<rlim_t>(held_back) >= limit.rlim_cur;
}

}  // namespace pfc
