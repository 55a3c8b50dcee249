// An order of images in which a worker reads its files in long stretches.
#pragma once

#include <cstdint>
#include <vector>

#include "data/order/global_order.h"
#include "data/order/image_order.h"
#include "data/order/interleaving.h"

namespace pfc {

struct SequentialOptions {
  std::int64_t global_batch = 0;   ///< G, of all workers
  std::int64_t window_images = 0;  ///< the most that a window has, at least G
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// The images in the order of their files, one file behind the other (several data sets evenly
/// mixed: interleaving.h), form a ring, which each epoch cuts at another random place into windows
/// of K * G images, the last one perhaps shorter. Windows follow each other in random order. Within
/// a window, a global batch has one image of each of G lanes, which are K neighbours each:
///
///   position p = row * G + lane shows neighbour permutation(epoch, window, lane)(row) of `lane`
///
/// So a worker, which has B neighbouring lanes of every batch, reads one stretch of each window
/// (and of each data set), and which image is at which position depends on the global batch, not on
/// the number of workers. The images that do not fill a global batch, other ones in each epoch,
/// have the positions behind.
///
/// Without `shuffle` position p shows the image p of the sequence.
class SequentialOrder final : public ImageOrder {
 public:
  /// `sets`: how many images each data set has. REQUIRES: together at least G.
  SequentialOrder(const std::vector<std::int64_t>& sets, const SequentialOptions& options);

  [[nodiscard]] std::int64_t at(std::int64_t epoch, std::int64_t position) const override;

  /// How many windows an epoch has.
  [[nodiscard]] std::int64_t windows() const {
    return cuts_.full_windows + (cuts_.short_rows > 0 ? 1 : 0);
  }
  /// K: global batches of a window, but for the last one of an epoch.
  [[nodiscard]] std::int64_t rows_of_window() const { return cuts_.rows; }
  /// Which of an epoch's windows, in the order of time, holds its global batch `row`.
  [[nodiscard]] std::int64_t window_of(std::int64_t row) const { return row / cuts_.rows; }
  /// The images that a worker with lanes [lanes.first, lanes.end) of every batch shows from that
  /// window, in the order of the files. Neighbouring ranges are joined, also over the end of a
  /// file.
  [[nodiscard]] std::vector<ImageRange> images_of(std::int64_t epoch, std::int64_t window,
                                                  const ImageRange& lanes) const;

 private:
  struct Cuts {
    std::int64_t rows = 0;          ///< K
    std::int64_t full_windows = 0;  ///< with K rows
    std::int64_t short_rows = 0;    ///< of the window behind them; 0: there is none
  };
  static Cuts cut_epoch(std::int64_t images, const SequentialOptions& options);

  /// A window: where it begins on the ring, and how many rows it has.
  struct Window {
    std::int64_t id = 0, begin = 0, rows = 0;
  };
  [[nodiscard]] Window window(std::int64_t epoch, std::int64_t slot) const;
  /// Where the ring is cut.
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
