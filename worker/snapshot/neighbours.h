// Which worker keeps the copy of which other one's rows.
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"

namespace pfc {

/// Element r is the worker that keeps a copy of rank r's rows; each worker keeps one. It is on
/// another host wherever no host has more than half of the workers, so that the loss of a host
/// loses no rows; otherwise for as many workers as can be. A worker alone keeps its own. `hosts`:
/// by rank.
std::vector<Rank> keepers_of(const std::vector<std::string>& hosts);

/// Whose rows this worker keeps; -1 for a worker alone.
Rank kept_by(const std::vector<Rank>& keepers, Rank me);

}  // namespace pfc
