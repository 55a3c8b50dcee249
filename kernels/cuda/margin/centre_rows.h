// The class centres of one worker on a GPU, as kernels are given them, and the passes over their
// rows: a warp a row, everything enqueued on the device's compute stream.
#pragma once

#include <cstdint>

#include "kernels/cuda/margin/centre_table_view.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

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
