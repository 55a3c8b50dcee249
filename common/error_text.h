// What an exception says, for a message.
#pragma once

#include <exception>
#include <string>

namespace pfc {

/// The error's own words. Where it comes from the system, which says no more than "std::bad_alloc"
/// or "Resource temporarily unavailable", what that means.
std::string text_of(const std::exception& error);

}  // namespace pfc
