// Gathers one text from each worker.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace pfc {

/// Maximum length of one text. Every worker receives one text from each worker.
inline constexpr std::size_t kLongestText = 64 << 10;

/// Returns the texts of all workers, by rank. `comm` is a Comm of host memory. Collective. Throws
/// CommError. REQUIRES: no text is longer than kLongestText.
std::vector<std::string> gather_texts(Comm& comm, const std::string& mine);

}  // namespace pfc
