// Ranks of the right classes, for the top-k accuracy of a classification layer that is sharded over
// workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/class_positions.h"
#include "comm/comm.h"
#include "comm/shard.h"

namespace pfc {

/// This worker's shard of a classification layer.
struct ClassLayer {
  RowRange classes;  ///< positions
  /// true: a score is the cosine of an embedding and a row of D numbers. false: a row has D + 1
  /// numbers, and a score is the product of the embedding and the first D of them, plus the last
  /// one, a bias.
  bool cosines = true;
  std::int64_t sub_centres = 1;   ///< rows of D numbers of each class; the highest cosine counts
  ClassPositions positions = {};  ///< positions of the labels
  /// Writes the rows of some of these classes.
  std::function<void(RowRange classes, std::span<float> rows)> read;
};

/// Embeddings of D numbers each. Each begins `stride` numbers after the previous one.
struct EmbeddingRows {
  std::span<const float> numbers;
  std::int64_t dimension = 0, stride = 0;
};

/// Labels of images.
struct RankedLabels {
  std::span<const std::int64_t> first;  ///< [images]
  /// [images, number of others per image]: the other labels, padded with -1; or empty.
  std::span<const std::int64_t> others = {};
};

/// Returns the rank of each embedding's label among the classes of all workers: 1 + the number of
/// other classes whose score is at least as high, or not a number. If an image has several labels,
/// returns the rank of the label with the highest score among the classes that are not labels of
/// the image. Sums are float64, so the result is the same for any number of workers and threads, on
/// any device. Collective: all workers have the same embeddings and labels. Runs on `threads`
/// threads (0: all cores).
std::vector<std::int64_t> ranks_of_labels(const ClassLayer& layer, Comm& comm,
                                          const EmbeddingRows& embeddings,
                                          const RankedLabels& labels, int threads);

/// Returns an upper bound on the bytes that ranks_of_labels() and ClassLayer::read() allocate.
std::size_t class_ranks_bytes(std::int64_t images, std::int64_t dimension, int world_size);

}  // namespace pfc
