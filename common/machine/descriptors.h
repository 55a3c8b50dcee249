// How many files, pipes and connections this process may have open.
#pragma once

namespace pfc {

/// Raises the limit to the largest that this process may set ("ulimit -Hn"). Its children inherit
/// it. Leaves it as it is where that fails.
void raise_descriptor_limit() noexcept;

/// Whether fewer than `held_back` numbers are left below the limit after `newest`, which has just
/// been opened. Linux gives the lowest number that is free, so all below it are in use.
bool descriptors_are_short(int newest, int held_back) noexcept;

}  // namespace pfc
