// The limit of open files, pipes and connections of this process.
#pragma once

namespace pfc {

/// Raises the limit to the maximum allowed for this process ("ulimit -Hn"). Child processes
/// inherit it. Leaves it unchanged on failure.
void raise_descriptor_limit() noexcept;

/// Returns whether fewer than `held_back` descriptors remain below the limit after `newest`, which
/// has just been opened. Linux assigns the lowest free number, so all lower ones are in use.
bool descriptors_are_short(int newest, int held_back) noexcept;

}  // namespace pfc
