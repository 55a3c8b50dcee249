#include "common/error_text.h"

#include <new>
#include <system_error>

namespace pfc {

std::string text_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "no memory is left (ulimit -v, or the machine's)";
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("no thread or process can be started (") + error.what() +
           "): the limit of this user (ulimit -u) or of the machine may have been reached";
  }
  return error.what();
}

}  // namespace pfc
