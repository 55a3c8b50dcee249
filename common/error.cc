#include "common/error.h"

#include <new>

namespace pfc {

std::string error_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  return "out of memory: the system gives this process no more; end other programs, or raise its "
         "limit (ulimit -v), or lower batch_size (pfcctl plan shows what a worker needs)";
}

}  // namespace pfc
