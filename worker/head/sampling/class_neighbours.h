// Finds the classes with the nearest centres, from which hard negatives are chosen
// (docs/head.md#hard-negatives).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/class_positions.h"
#include "comm/comm.h"
#include "kernels/ops.h"

namespace pfc {

/// The nearest classes of each class of the whole table, by position, the same on every worker; or
/// those of each query (find_nearest()).
struct ClassNeighbours {
  std::int64_t degree = 0;  ///< k, the number of nearest classes
  /// [classes or queries, k]: nearest first, padded with -1. Empty: not computed yet.
  std::vector<std::int32_t> table;

  [[nodiscard]] std::span<const std::int32_t> of(std::int64_t position) const {
    return std::span(table).subspan(static_cast<std::size_t>(position * degree),
                                    static_cast<std::size_t>(degree));
  }
};

struct NeighbourOptions {
  ClassPositions positions;
  std::int64_t row_size = 512;   ///< numbers of a class's row
  std::int64_t sub_centres = 1;  ///< centres in a row
  bool bias = false;             ///< the last number of a centre is a bias, which is not compared
  std::int64_t degree = 16;      ///< ClassNeighbours::degree
  /// Called with the numbers of finished and of all rows of this worker. An
  /// exception ends the search; REQUIRES: a single worker, if it can throw. Empty: not called.
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

/// Copies the centres of classes of this worker's shard (or its queries) to rows [n, row_size].
using ReadCentres = std::function<void(RowRange classes, std::span<float> rows)>;

/// Finds, for each class, the `degree` other classes whose centres have the largest cosines with
/// its own; of equal cosines, the class with the smaller position. With sub-centres, the cosine of
/// two classes is the largest of all pairs of their sub-centres. Centres of length 0 have cosine 0
/// with all others. Cosines are float32; their operands are bf16 if ops.activation_type() is. The
/// products take 2 C^2 D / W operations of a worker, for C classes, W workers, and the numbers D of
/// a row; with sub-centres, times their number. Every worker receives all centres, in parts.
/// Collective. `host`: for tensors in host memory. Throws CommError and DeviceError. REQUIRES: at
/// most 2^31 - 1 classes.
ClassNeighbours find_neighbours(Ops& ops, Comm& host, const NeighbourOptions& options,
                                const ReadCentres& read);

/// Rows that are compared with the classes, but are not classes themselves.
struct QueryRows {
  std::int64_t count = 0;
  ReadCentres read;  ///< copies queries [begin, end) to rows [n, row_size]
};

/// Finds, for each query of this worker, the `degree` classes with the largest cosines, like
/// find_neighbours(). `read` reads classes. Collective; each worker has its own queries, at least
/// one, and receives only the results for these.
ClassNeighbours find_nearest(Ops& ops, Comm& host, const NeighbourOptions& options,
                             const ReadCentres& read, const QueryRows& queries);

/// Copies rank 0's neighbours to all workers. Collective. Throws CommError.
void share_neighbours(ClassNeighbours& neighbours, Comm& host);

/// Memory of find_neighbours() on rank 0; an upper limit for each precision of the products.
struct NeighbourBytes {
  std::size_t table = 0;                          ///< ClassNeighbours::table
  std::size_t host = 0;                           ///< only during the search, in host memory
  std::size_t own = 0, others = 0, products = 0;  ///< only during the search, in device memory
};
NeighbourBytes neighbour_bytes(const NeighbourOptions& options, int world_size, bool gpu);

}  // namespace pfc
