// Writes a whole buffer to a file descriptor.
#pragma once

#include <string_view>

namespace pfc {

/// Repeats write() until everything is written. Returns false, with errno set, if a call fails.
bool write_all(int fd, std::string_view bytes);

}  // namespace pfc
