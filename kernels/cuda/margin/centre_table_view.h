// The class centres of one worker as kernels receive them: plain pointers into device memory.
#pragma once

#include <cstdint>

#include "kernels/math/missed_updates.h"

namespace pfc {

/// CentreTable in a kernel's terms.
struct CentreTableView {
  std::int64_t first_class = 0;
  std::int64_t rows = 0;
  std::int64_t dimension = 0;
  void* weight = nullptr;
  void* momentum = nullptr;
  void* second = nullptr;
  float* inverse_norm = nullptr;
  bool packs = false;  ///< every row lies on a 16-byte boundary
};

/// Which rows of the table, and how they catch up. Lists in device memory.
struct RowList {
  std::int64_t first = 0;                 ///< of the rows, where they lie one behind the other
  const std::int32_t* rows = nullptr;     ///< [S]; null: they do
  const std::uint32_t* missed = nullptr;  ///< [S], into catch_ups; null: none has missed an update
  const CatchUp* catch_ups = nullptr;

  [[nodiscard]] RowList from(std::int64_t begin) const {
    return {.first = first + begin,
            .rows = rows == nullptr ? nullptr : rows + begin,
            .missed = missed == nullptr ? nullptr : missed + begin,
            .catch_ups = catch_ups};
  }
};

/// Gradients of the centres' directions, without those of the targets.
struct CentreGradients {
  std::int64_t count = 0;               ///< rows
  const float* gradients = nullptr;     ///< [.., stride]
  std::int64_t stride = 0;              ///< a multiple of 8, or the dimension
  const std::int32_t* slots = nullptr;  ///< [count], row i's in gradients; null: i
  /// [count] of the centres: takes off the part along the centre, which normalising does not let
  /// through. Null: that part has been taken off.
  const float* inverse_norms = nullptr;
  /// The targets' gradients by sample [N, stride], and whose they are: positive k is row
  /// positive_rows[k] - first_row; sorted.
  const float* target_gradients = nullptr;
  const std::int32_t* positive_rows = nullptr;
  const std::int32_t* positive_samples = nullptr;
  std::int32_t positives = 0;
  std::int64_t first_row = 0;
};

}  // namespace pfc
