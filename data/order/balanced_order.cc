#include "data/order/balanced_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "data/order/keyed_permutation.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

// Counters of Stream::kShuffle: the highest bit is 1 for rounds and 0 for classes.
constexpr std::uint64_t kRoundCounters = std::uint64_t{1} << 63;

std::uint64_t key_of(std::uint64_t seed, std::int64_t epoch, std::uint64_t counter) {
  const Philox4 words =
      random_words(seed, Stream::kShuffle, static_cast<std::uint32_t>(epoch), counter);
  return std::uint64_t{words.x[0]} << 32 | words.x[1];
}

}  // namespace

BalancedOrder::BalancedOrder(const std::vector<std::int64_t>& labels, std::uint64_t seed,
                             bool shuffle)
    : seed_(seed), shuffle_(shuffle) {
  const auto label = [&](std::int64_t image) { return labels[static_cast<std::size_t>(image)]; };
  images_.resize(labels.size());
  std::iota(images_.begin(), images_.end(), 0);
  check(!images_.empty(), "BalancedOrder: no images");
  std::ranges::sort(images_, {}, [&](std::int64_t i) { return std::pair{label(i), i}; });
  for (std::int64_t i = 0; i < std::ssize(images_); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i == 0 || label(images_[at]) != label(images_[at - 1])) first_.push_back(i);
  }
  first_.push_back(std::ssize(images_));
}

std::int64_t BalancedOrder::permuted(std::uint64_t key, std::int64_t size, std::int64_t x) const {
  if (!shuffle_ || size == 1) return x;
  return static_cast<std::int64_t>(
      permute_keyed(key, static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(x)));
}

std::int64_t BalancedOrder::at(std::int64_t epoch, std::int64_t position) const {
  check(position >= 0, "BalancedOrder: position outside the epoch");
  const std::int64_t classes = std::ssize(first_) - 1;
  const std::int64_t round = position / classes;
  const std::uint64_t round_key =
      key_of(seed_, epoch, kRoundCounters | static_cast<std::uint64_t>(round));
  const std::int64_t c = permuted(round_key, classes, position % classes);

  const std::int64_t first = first_[static_cast<std::size_t>(c)];
  const std::int64_t size = first_[static_cast<std::size_t>(c) + 1] - first;
  const auto pass = static_cast<std::uint64_t>(round / size);
  const std::uint64_t pass_key =
      keyed_permutation::mix(key_of(seed_, epoch, static_cast<std::uint64_t>(c)) + pass);
  return images_[static_cast<std::size_t>(first + permuted(pass_key, size, round % size))];
}

std::size_t BalancedOrder::bytes(std::int64_t images, std::int64_t classes) {
  const std::int64_t with_images = std::min(images, classes);
  return static_cast<std::size_t>(2 * images + 2 * with_images) * sizeof(std::int64_t);
}

}  // namespace pfc
