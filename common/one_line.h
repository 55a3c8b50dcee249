// Text that another program has written, made fit to be printed or shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pfc {

/// One line of UTF-8 without control characters, so that nobody can forge a line of ours, move a
/// terminal's cursor, or turn the direction of writing. Each control character becomes a space,
/// each byte that is not UTF-8 a question mark. A text longer than `longest` bytes is cut.
std::string one_line(std::string_view text, std::size_t longest = 1'000);

/// Whether all of the text is UTF-8 (RFC 3629: no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

}  // namespace pfc
