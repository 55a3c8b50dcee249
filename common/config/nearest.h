// Finds the known word that is closest to a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pfc {

/// Returns the known word with the smallest edit distance (a letter inserted, removed or replaced,
/// or two neighbours swapped). Empty if more than a third of the word's letters, and more than 2,
/// would change.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace pfc
