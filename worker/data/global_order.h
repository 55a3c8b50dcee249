// The order in which an epoch shows the images: a permutation that is computed, not stored.
#pragma once

#include <cstdint>

namespace pfc {

/// A pseudo-random permutation of 0 .. images - 1 for each epoch; a pure function of (seed, epoch,
/// position), so that any worker finds any position at once and without memory, whatever the number
/// of workers. A value: copied freely, thread-safe.
///
/// A balanced Feistel network (Luby and Rackoff 1988) with Philox as its round function permutes
/// the smallest domain of 4^k that holds the images; positions that land outside walk on along
/// their cycle (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section
/// 4).
class GlobalOrder {
 public:
  /// images > 0. Without `shuffle` it is the identity.
  GlobalOrder(std::int64_t images, std::uint64_t seed, bool shuffle);

  /// The image at a position 0 .. images - 1 of an epoch.
  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t permute(std::uint32_t epoch, std::uint64_t x) const;

  std::uint64_t images_;
  std::uint64_t seed_;
  bool shuffle_;
  int half_bits_;
};

}  // namespace pfc
