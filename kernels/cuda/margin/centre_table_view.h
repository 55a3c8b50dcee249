// The class centres of one worker, as plain pointers into device memory for kernels.
#pragma once

#include <cstdint>

#include "kernels/math/missed_updates.h"

namespace pfc {

/// A CentreTable for kernels, with a row for each centre.
struct CentreTableView {
  std::int64_t first_centre = 0;  ///< number of row 0 in the table of all workers
  std::int64_t rows = 0;
  std::int64_t dimension = 0;
  void* weight = nullptr;
  void* momentum = nullptr;          ///< nullptr: SGD without momentum
  void* second = nullptr;            ///< nullptr: SGD
  float* weight_scales = nullptr;    ///< [rows], of one-byte numbers
  float* momentum_scales = nullptr;  ///< [rows], of one-byte numbers
  float* inverse_norm = nullptr;
  bool packs = false;  ///< every row starts at a multiple of the bytes of a pack, at most 16
  bool plain = false;  ///< rows are not normalised: inverse_norm is 1
};

/// Some rows of the table, and the updates that they have missed. The lists are in device memory.
struct RowList {
  std::int64_t first = 0;              ///< the first row if rows is nullptr
  const std::int32_t* rows = nullptr;  ///< [S] row numbers; nullptr: the rows are contiguous
  /// [S], indices of catch_ups; 0: the row has missed no update. nullptr: no row has missed any.
  const std::uint32_t* missed = nullptr;
  const CatchUp* catch_ups = nullptr;

  [[nodiscard]] RowList from(std::int64_t begin) const {
    return {.first = first + begin,
            .rows = rows == nullptr ? nullptr : rows + begin,
            .missed = missed == nullptr ? nullptr : missed + begin,
            .catch_ups = catch_ups};
  }
};

/// Gradients of normalised centres.
struct CentreGradients {
  std::int64_t count = 0;            ///< number of rows
  const float* gradients = nullptr;  ///< [.., stride]
  std::int64_t stride = 0;           ///< a multiple of 8, or the dimension
  const std::int32_t* slots =
      nullptr;  ///< [count]: row i is gradients[slots[i]]; nullptr: gradients[i]
  /// [count], 1 / length of the centres, used to subtract the gradient's component along the
  /// centre. nullptr: already subtracted, or a plain softmax.
  const float* inverse_norms = nullptr;
  /// Additional gradients of the targets, [.., stride]: for each k, with s = positive_slots[k],
  /// target_gradients[s] is added to row target_rows[s] - first_row. This row belongs to the active
  /// class positive_classes[k]. positive_classes is sorted.
  const float* target_gradients = nullptr;
  const std::int32_t* positive_classes = nullptr;
  const std::int32_t* positive_slots = nullptr;
  std::int32_t positives = 0;
  const std::int32_t* target_rows = nullptr;  ///< nullptr: one row for each class
  std::int64_t sub_centres = 1;               ///< rows of each class
  std::int64_t first_row = 0;
};

}  // namespace pfc
