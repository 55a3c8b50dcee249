// Converts exceptions to text for messages.
#pragma once

#include <exception>
#include <string>

namespace pfc {

/// Returns the text of the exception. Explains terse system errors such as "std::bad_alloc" or
/// "Resource temporarily unavailable".
std::string text_of(const std::exception& error);

}  // namespace pfc
