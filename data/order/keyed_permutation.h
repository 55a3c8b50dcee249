// A pseudo-random permutation of a small range that is computed, not stored.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace pfc {

namespace keyed_permutation {

/// Hashes x (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Each round swaps the halves, so an even number leaves them in their original places.
inline constexpr std::uint64_t kRounds = 8;
// Fewer bits give too few round functions to reach most permutations.
inline constexpr int kMinBits = 6;

}  // namespace keyed_permutation

/// Returns the number to which permutation `key` of 0 .. size - 1 maps x. A Feistel network like
/// GlobalOrder's, with a cheaper round function, because the key already comes from Philox: a
/// permutation is used for only a few images, and each use has another key. REQUIRES: x < size.
constexpr std::uint64_t permute_keyed(std::uint64_t key, std::uint64_t size, std::uint64_t x) {
  using namespace keyed_permutation;
  const int bits = std::max(kMinBits, static_cast<int>(std::bit_width(size - 1)));
  do {
    int left_bits = bits - bits / 2, right_bits = bits / 2;
    std::uint64_t left = x >> right_bits;
    std::uint64_t right = x & ((std::uint64_t{1} << right_bits) - 1);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = mix(key + (round << 40) + (right + 1) * 0x9e3779b97f4a7c15u);
      const std::uint64_t next = left ^ (mixed & ((std::uint64_t{1} << left_bits) - 1));
      left = right;
      right = next;
      std::swap(left_bits, right_bits);
    }
    x = left << right_bits | right;
  } while (x >= size);
  return x;
}

}  // namespace pfc
