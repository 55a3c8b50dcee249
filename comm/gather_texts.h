// The texts of all workers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace pfc {

/// Upper bound on the length of one text, of which every worker receives one from each.
inline constexpr std::size_t kLongestText = 64 << 10;

/// Each worker's text, by rank. `comm` is of host memory. Collective. Throws CommError.
/// REQUIRES: no text is longer than kLongestText.
std::vector<std::string> gather_texts(Comm& comm, const std::string& mine);

}  // namespace pfc
