// Pseudo-random permutations of 0 .. n - 1 that need no table.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/math/philox.h"

namespace pfc {

/// A permutation of 0 .. n - 1 that depends only on seed and n. Checkpoints rely on its values. The
/// time of place_of() and element_at() does not grow with n. A Feistel network of four rounds (Luby
/// and Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", 1988)
/// with Philox as its round function permutes the numbers below the next power of two. A result of
/// n or above goes through the network again (cycle walking: Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002), on average less than once.
class Permutation {
 public:
  /// REQUIRES: n is 1 or more.
  Permutation(std::uint64_t seed, std::uint64_t n)
      : seed_(seed),
        n_(n),
        low_bits_(std::bit_width(n - 1) / 2),
        low_mask_((std::uint64_t{1} << low_bits_) - 1),
        high_mask_((std::uint64_t{1} << (std::bit_width(n - 1) - low_bits_)) - 1) {}

  /// Returns the place of element i. REQUIRES: i < n.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t i) const {
    do {
      for (std::uint32_t round = 0; round < kRounds; ++round) i = mixed(i, round);
    } while (i >= n_);
    return i;
  }

  /// Returns the element at a place. REQUIRES: place < n.
  [[nodiscard]] std::uint64_t element_at(std::uint64_t place) const {
    do {
      for (std::uint32_t round = kRounds; round-- > 0;) place = mixed(place, round);
    } while (place >= n_);
    return place;
  }

 private:
  static constexpr std::uint32_t kRounds = 4;

  /// Changes one half of x by a function of the other half. A second call with the same round
  /// restores x.
  [[nodiscard]] std::uint64_t mixed(std::uint64_t x, std::uint32_t round) const {
    const bool changes_low = round % 2 == 0;
    const std::uint64_t other = changes_low ? x >> low_bits_ : x & low_mask_;
    const std::uint64_t bits = random_words(seed_, Stream::kClassPosition, round, other).x[0];
    return x ^ (changes_low ? bits & low_mask_ : (bits & high_mask_) << low_bits_);
  }

  std::uint64_t seed_, n_;
  int low_bits_;
  std::uint64_t low_mask_, high_mask_;
};

}  // namespace pfc
