// The order of the images in an epoch: a permutation that is computed, not stored.
#pragma once

#include <cstdint>

#include "data/order/image_order.h"

namespace pfc {

/// A pseudo-random permutation of 0 .. images - 1 for each epoch. It is a pure function of (seed,
/// epoch, position): every worker can compute every position in constant time and memory, and the
/// order does not depend on the number of workers. Thread-safe and copyable.
///
/// A balanced Feistel network (Luby and Rackoff 1988) with Philox as its round function permutes 0
/// .. 4^k - 1, the smallest such range that contains all images. A result outside 0 .. images - 1
/// is permuted again until it is inside (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002, section 4).
class GlobalOrder final : public ImageOrder {
 public:
  /// REQUIRES: images > 0. Without `shuffle` the order is 0, 1, 2 ...
  GlobalOrder(std::int64_t images, std::uint64_t seed, bool shuffle);

  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const override;

 private:
  [[nodiscard]] std::uint64_t permute(std::uint32_t epoch, std::uint64_t x) const;

  std::uint64_t images_;
  std::uint64_t seed_;
  bool shuffle_;
  int half_bits_;
};

}  // namespace pfc
