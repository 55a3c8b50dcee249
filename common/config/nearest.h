// The nearest known word to a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pfc {

/// The known word with the smallest Damerau-Levenshtein distance; empty when none is near enough
/// (more than a third of the word's letters, at least 2, would have to change).
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace pfc
