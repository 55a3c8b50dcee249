// Pieces of the state. State is sent between workers in pieces, so that no message takes long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace pfc {

inline constexpr std::size_t kSnapshotPieceBytes = std::size_t{16} << 20;

/// Returns the piece that starts at `begin`; empty after the end.
template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> bytes, std::size_t begin) {
  const std::size_t from = std::min(begin, bytes.size());
  return bytes.subspan(from, std::min(kSnapshotPieceBytes, bytes.size() - from));
}

}  // namespace pfc
