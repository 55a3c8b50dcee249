// An order of images that lets a worker read its files in long contiguous ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "data/order/global_order.h"
#include "data/order/image_order.h"
#include "data/order/interleaving.h"

namespace pfc {

struct SequentialOptions {
  std::int64_t global_batch = 0;   ///< G, over all workers
  std::int64_t window_images = 0;  ///< maximum size of a window, at least G
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// The images in file order (several data sets are mixed evenly: interleaving.h) form a ring. Each
/// epoch cuts the ring at another random place into windows of K * G images; the last one may be
/// shorter. Windows follow each other in random order. A window is divided into G lanes of K
/// adjacent images each. A global batch has one image from each lane of its window:
///
///   position p = row * G + lane has image permutation(epoch, window, lane)(row) of `lane`
///
/// A worker uses B adjacent lanes of every batch, so it reads one contiguous range of each window
/// (and of each data set). Which image is at which position depends on the global batch, not on the
/// number of workers. The images that do not fill a global batch have the last positions; they are
/// different images in each epoch.
///
/// Without `shuffle` position p has image p of the sequence.
class SequentialOrder final : public ImageOrder {
 public:
  /// `sets`: number of images in each data set. REQUIRES: their sum is at least G.
  SequentialOrder(const std::vector<std::int64_t>& sets, const SequentialOptions& options);

  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const override;

  /// Returns the number of windows in an epoch.
  [[nodiscard]] std::int64_t windows() const {
    return cuts_.full_windows + (cuts_.short_rows > 0 ? 1 : 0);
  }
  /// Returns K, the number of global batches in a window, except for the last window of an epoch.
  [[nodiscard]] std::int64_t rows_of_window() const { return cuts_.rows; }
  /// Returns the window that contains global batch `row` of an epoch. Windows are numbered by use.
  [[nodiscard]] std::int64_t window_of(std::int64_t row) const { return row / cuts_.rows; }
  /// Returns the images of that window for a worker with lanes [lanes.first, lanes.end) of every
  /// batch, in file order. Adjacent ranges are merged, even across files.
  [[nodiscard]] std::vector<ImageRange> images_of(std::int64_t epoch, std::int64_t window,
                                                  const ImageRange& lanes) const;

 private:
  struct Cuts {
    std::int64_t rows = 0;          ///< K
    std::int64_t full_windows = 0;  ///< number of windows with K rows
    std::int64_t short_rows = 0;    ///< rows of the last, shorter window; 0 if there is none
  };
  static Cuts cut_epoch(std::int64_t images, const SequentialOptions& options);

  /// A window: its start on the ring and its number of rows.
  struct Window {
    std::int64_t id = 0, begin = 0, rows = 0;
  };
  [[nodiscard]] Window window(std::int64_t epoch, std::int64_t slot) const;
  /// Returns the position at which the ring is cut.
  [[nodiscard]] std::int64_t cut(std::int64_t epoch) const;
  void append(std::int64_t epoch, const ImageRange& of_ring, std::vector<ImageRange>& to) const;

  const Interleaving sequence_;
  const std::int64_t images_;
  const std::int64_t batch_;  ///< G
  const std::uint64_t seed_;
  const bool shuffle_;
  const Cuts cuts_;
  const GlobalOrder window_order_;
};

}  // namespace pfc
