#include "data/order/global_order.h"

#include <algorithm>
#include <bit>

#include "common/error.h"
#include "kernels/math/philox.h"

namespace pfc {

namespace {

// Four rounds are enough for wide halves (Luby and Rackoff); narrow halves need more.
constexpr std::uint32_t kShuffleRounds = 8;
// With halves of one or two bits there are too few round functions to reach most permutations.
constexpr int kMinHalfBits = 4;

}  // namespace

GlobalOrder::GlobalOrder(std::int64_t images, std::uint64_t seed, bool shuffle)
    : images_(static_cast<std::uint64_t>(images)), seed_(seed), shuffle_(shuffle) {
  check(images > 0, "GlobalOrder: no images");
  half_bits_ = std::max(kMinHalfBits, (static_cast<int>(std::bit_width(images_ - 1)) + 1) / 2);
}

std::int64_t GlobalOrder::at(std::int64_t epoch, std::int64_t position) const {
  auto x = static_cast<std::uint64_t>(position);
  check(position >= 0 && x < images_, "GlobalOrder: position outside the epoch");
  if (!shuffle_) return position;
  do {
    x = permute(static_cast<std::uint32_t>(epoch), x);
  } while (x >= images_);
  return static_cast<std::int64_t>(x);
}

std::uint64_t GlobalOrder::permute(std::uint32_t epoch, std::uint64_t x) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = x >> half_bits_;
  std::uint64_t right = x & mask;
  for (std::uint32_t round = 0; round < kShuffleRounds; ++round) {
    const std::uint64_t counter = std::uint64_t{round} << 32 | right;
    const std::uint64_t mixed = random_words(seed_, Stream::kShuffle, epoch, counter).x[0];
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace pfc
