// An order in which every class has equally many images, however many it has in the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/order/image_order.h"

namespace pfc {

/// Goes through the classes in rounds. A round has one image of each class that has images, the
/// classes in another order each round. Each class goes through its own images in passes, in
/// another order each pass, so within an epoch its images are used equally often, plus or minus
/// one. A pure function of (seed, epoch, position) and the labels. Unlike other orders it repeats
/// images of small classes and omits some of large ones, and needs memory for every image.
class BalancedOrder final : public ImageOrder {
 public:
  /// labels: of all images. Without `shuffle` classes and images keep their order. REQUIRES: an
  /// image.
  BalancedOrder(const std::vector<std::int64_t>& labels, std::uint64_t seed, bool shuffle);

  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const override;

  /// Returns the most bytes needed while it is made: images, labels, and classes.
  [[nodiscard]] static std::size_t bytes(std::int64_t images, std::int64_t classes);

 private:
  [[nodiscard]] std::int64_t permuted(std::uint64_t key, std::int64_t size, std::int64_t x) const;

  std::vector<std::int64_t> images_;  // sorted by class
  std::vector<std::int64_t> first_;   // in images_, of each class that has images; then the end
  const std::uint64_t seed_;
  const bool shuffle_;
};

}  // namespace pfc
