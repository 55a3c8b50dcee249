#include "common/error_text.h"

#include <new>
#include <system_error>

namespace pfc {

std::string text_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "out of memory; end other programs, raise the limit of this process (ulimit -v), or "
           "lower batch_size (pfcctl plan shows what a worker needs)";
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("cannot start a thread or process (") + error.what() +
           "): a limit of this user (ulimit -u, ulimit -v) or of the machine may have been "
           "reached; raise it, or end other programs";
  }
  if (system != nullptr && system->code() == std::errc::too_many_files_open) {
    return std::string(error.what()) + "; raise this process's limit (ulimit -Hn)";
  }
  return error.what();
}

}  // namespace pfc
