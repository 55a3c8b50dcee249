// Converts any data set to RecordIO in random order, for readers that read it sequentially, or in
// its own order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/order/global_order.h"
#include "pfcctl/data/writing.h"

namespace pfc {

/// A random order that needs one pass over the data and little memory: blocks of consecutive images
/// are read in random order into a pool, and images leave the pool in random order. With a pool for
/// all images every order is equally likely. With a small pool, the images of one block are still
/// spread over about as many places of the new file as the pool holds images. Without `shuffle` the
/// order is 0, 1, 2 ... A pure function of its arguments. Use from one thread.
class ShuffleOrder {
 public:
  /// REQUIRES: images > 0, 0 < block <= pool; all are numbers of images.
  ShuffleOrder(std::int64_t images, std::int64_t block, std::int64_t pool, std::uint64_t seed,
               bool shuffle = true);

  [[nodiscard]] std::int64_t blocks() const { return blocks_; }
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  /// Returns the images of the block that is read `i`-th.
  [[nodiscard]] Range block(std::int64_t i) const;
  /// Returns a lower bound of the number of images that have left the pool when block `i` has been
  /// read.
  [[nodiscard]] std::int64_t left_after(std::int64_t i) const;
  /// Adds the next block's images to the pool. Returns the images that leave, in order.
  std::vector<std::int64_t> take_block();

 private:
  std::int64_t draw();

  const std::int64_t images_, block_, room_;
  const std::int64_t blocks_;
  const std::uint64_t seed_;
  const bool shuffle_;
  const GlobalOrder order_;
  std::vector<std::int64_t> pool_;
  std::int64_t taken_ = 0;  ///< blocks
  std::int64_t left_ = 0;   ///< images
};

struct ShuffleOptions {
  std::filesystem::path in;                       ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;                      ///< a folder, created if missing
  std::uint64_t memory = std::uint64_t{2} << 30;  ///< bytes for images in memory
  std::uint64_t seed = 1;
  bool keep_order = false;  ///< writes the images in their own order; `seed` is not used
  int threads = 0;          ///< reading threads; 0: all cores
  double max_damaged = 0.001;
  bool replace = false;  ///< replace an existing data set in `out`
};

struct Shuffled {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;  ///< one line for each skipped image
};

/// Writes train.rec, train.idx, property, and identities.txt if the data name their people. There
/// is no record 0; keys are 0, 1, 2 ... in the order of the file. If the data are one RecordIO
/// file, its records keep all their bytes, including extra labels. Does not decode images. The
/// files appear when they are complete; after an interruption the same call continues. Throws as
/// pack_dataset() does.
Shuffled shuffle_dataset(const ShuffleOptions& options, const ShowProgress& progress);
/// The same for an open data set: options.in is used only in messages and to protect its files.
Shuffled shuffle_dataset(const Dataset& dataset, const ShuffleOptions& options,
                         const ShowProgress& progress);

}  // namespace pfc
