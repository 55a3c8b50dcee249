// An order in which every class has equally many images, however many it has in the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/order/image_order.h"

namespace pfc {

/// A sequence of rounds. A round has one image of each class that has images; each round has its
/// own order of classes. A class uses its images in passes, each with its own order. So within an
/// epoch, the numbers of times that two images of a class are used differ by at most one. A pure
/// function of (seed, epoch, position) and the labels. Unlike other orders it repeats images of
/// small classes, omits some images of large classes, and needs memory for every image.
class BalancedOrder final : public ImageOrder {
 public:
  /// labels: one for each image. Without `shuffle` classes and images keep their order. REQUIRES:
  /// labels is not empty.
  BalancedOrder(const std::vector<std::int64_t>& labels, std::uint64_t seed, bool shuffle);

  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const override;

  /// Returns the peak memory of the constructor, in bytes, including the labels.
  [[nodiscard]] static std::size_t bytes(std::int64_t images, std::int64_t classes);

 private:
  [[nodiscard]] std::int64_t permuted(std::uint64_t key, std::int64_t size, std::int64_t x) const;

  std::vector<std::int64_t> images_;  // sorted by class
  std::vector<std::int64_t> first_;   // where each class begins in images_; then images_.size()
  const std::uint64_t seed_;
  const bool shuffle_;
};

}  // namespace pfc
