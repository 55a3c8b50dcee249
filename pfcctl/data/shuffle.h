// Any data set to RecordIO in random order, for readers that go through a file from its beginning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/order/global_order.h"
#include "pfcctl/data/writing.h"

namespace pfc {

/// A random order that is made with one pass over the data and little memory: blocks of consecutive
/// images are read in random order into a pool, and images leave the pool in random order. With a
/// pool for all images every order is equally likely; with a small one, images of one block are
/// still spread over that part of the new file which the pool can hold. A pure function of its
/// arguments. Belongs to one thread.
class ShuffleOrder {
 public:
  /// REQUIRES: images > 0, 0 < block <= pool; all are numbers of images.
  ShuffleOrder(std::int64_t images, std::int64_t block, std::int64_t pool, std::uint64_t seed);

  [[nodiscard]] std::int64_t blocks() const { return blocks_; }
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  /// The images that are read `i`-th.
  [[nodiscard]] Range block(std::int64_t i) const;
  /// At least so many images have left when block `i` has come.
  [[nodiscard]] std::int64_t left_after(std::int64_t i) const;
  /// The images of the next block come in. Returns those that leave, in their order.
  std::vector<std::int64_t> take_block();

 private:
  std::int64_t draw();

  const std::int64_t images_, block_, room_;
  const std::int64_t blocks_;
  const std::uint64_t seed_;
  const GlobalOrder order_;
  std::vector<std::int64_t> pool_;
  std::int64_t taken_ = 0;  ///< blocks
  std::int64_t left_ = 0;   ///< images
};

struct ShuffleOptions {
  std::filesystem::path in;                       ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;                      ///< a folder, made where it is missing
  std::uint64_t memory = std::uint64_t{2} << 30;  ///< bytes of images at one moment
  std::uint64_t seed = 1;
  int threads = 0;  ///< that read; 0: all cores
  double max_damaged = 0.001;
  bool replace = false;  ///< a data set that is in `out` already
};

struct Shuffled {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;  ///< one line for each image that was left out
};

/// Writes train.rec, train.idx, property, and identities.txt where the data name their people.
/// There is no record 0; keys are 0, 1, 2 ... in the order of the file. Records of one RecordIO
/// file keep all their bytes, also further labels. Images are not looked at. The files appear when
/// they are whole; where it ends before, the same call goes on. Throws as pack_dataset() does.
Shuffled shuffle_dataset(const ShuffleOptions& options, const ShowProgress& progress);

}  // namespace pfc
