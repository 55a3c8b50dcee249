// The class centres of one worker on a GPU, as kernels are given them, and the passes over their
// rows: a warp a row, everything enqueued on the device's compute stream.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/device.h"
#include "kernels/margin/margin_softmax.h"
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

class CudaCentreRows {
 public:
  /// device and the table's memory are borrowed.
  CudaCentreRows(const CudaDevice& device, const CentreTable& table,
                 const MarginSoftmaxOptions& options);

  [[nodiscard]] const CentreTableView& view() const { return view_; }
  [[nodiscard]] std::int64_t dimension() const { return view_.dimension; }
  [[nodiscard]] CentrePrecision precision() const { return precision_; }

  /// The rows from `first` on as a product's operand, [.., D], where they can be one as they lie;
  /// else null.
  [[nodiscard]] void* operand(std::int64_t first, DType type) const;

  void compute_inverse_norms() const;
  /// Rows 0 .. count - 1, caught up, to `to` [at least count, at least D], float32 or bf16, with
  /// zeros around them; their inverse norms to inverse_norms, one a row of `to`.
  void gather(const RowList& active, std::int64_t count, const Tensor& to,
              float* inverse_norms) const;
  /// One optimizer step of each row, caught up.
  void move(const RowList& active, const CentreGradients& gradients,
            const MarginSoftmax::Update& update) const;
  /// sums [slots[i], D] += row i's gradient.
  void add_gradients(const RowList& active, const CentreGradients& gradients, float* sums,
                     const std::int32_t* slots) const;

  /// Rows 0 .. count - 1 as after `updates` updates, in the table.
  void settle(const RowList& rows, std::int64_t count, std::int64_t updates) const;

 private:
  const CudaDevice& device_;
  const MarginSoftmaxOptions options_;
  const CentrePrecision precision_;
  const CentreTableView view_;
};

}  // namespace pfc
