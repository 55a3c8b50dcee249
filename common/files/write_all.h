// Writing to a file descriptor, whole.
#pragma once

#include <string_view>

namespace pfc {

/// Writes everything, however many calls that takes. Returns false where one fails; errno says why.
bool write_all(int fd, std::string_view bytes);

}  // namespace pfc
