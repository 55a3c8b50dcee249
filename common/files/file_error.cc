#include "common/files/file_error.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "common/byte_size.h"

namespace pfc {

std::string file_error_text(int error) {
  std::string text = std::generic_category().message(error);
  rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += ": the limit is " + byte_size_text(limit.rlim_cur) + " for a file (ulimit -f)";
  }
  if (error == ENOSPC) text += " (make room on its disk)";
  if (error == EDQUOT) text += " (make room, or ask for a larger quota)";
  return text;
}

}  // namespace pfc
