#include "common/machine/limits.h"

#include <sys/resource.h>

#include <string>

#include "common/byte_size.h"
#include "common/error.h"

namespace pfc {

void expect_limits(const ProcessNeeds& needs) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needs.files) {
    throw InputError("open files: found a limit of " + std::to_string(limit.rlim_cur) +
                     " (ulimit -Hn), expected at least " + std::to_string(needs.files) +
                     "; raise it");
  }
  // RLIM_INFINITY is the largest number.
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < needs.address_space) {
    throw InputError("address space: found a limit of " + byte_size_text(limit.rlim_cur) +
                     " (ulimit -v), expected at least " + byte_size_text(needs.address_space) +
                     "; raise it, best with ulimit -v unlimited");
  }
}

}  // namespace pfc
