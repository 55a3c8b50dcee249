// Finds the known word that a mistyped one is closest to, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pfc {

/// The known word with the smallest edit distance (a letter inserted, removed or replaced, or two
/// neighbours swapped). Empty when more than a third of the word's letters, or more than 2, would
/// change.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace pfc
