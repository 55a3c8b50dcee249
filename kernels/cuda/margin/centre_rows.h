// Reads and updates the class centres of one worker on a GPU. Each kernel processes a row with one
// warp. All work is enqueued on the device's compute stream.
#pragma once

#include <cstdint>

#include "kernels/cuda/margin/centre_table_view.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

class CudaCentreRows {
 public:
  /// Borrows the device and the table's memory. The table has a row for each centre.
  CudaCentreRows(const CudaDevice& device, const CentreTable& table,
                 const MarginSoftmaxOptions& options);

  [[nodiscard]] const CentreTableView& view() const { return view_; }
  [[nodiscard]] std::int64_t dimension() const { return view_.dimension; }
  [[nodiscard]] CentrePrecision precision() const { return precision_; }
  [[nodiscard]] bool has_second() const { return view_.second != nullptr; }

  /// Returns the address of the table's rows from `first` on, [.., D], if a matrix product can
  /// read them in place as `type`; otherwise nullptr.
  [[nodiscard]] void* operand(std::int64_t first, DType type) const;

  void compute_inverse_norms(std::int64_t begin, std::int64_t end) const;
  /// Copies rows 0 to count - 1 of the list, after their missed updates, to `to` [at least count,
  /// at least D], float32 or bf16, and fills the rest of `to` with zeros. inverse_norms has one
  /// element per row of `to`.
  void gather(const RowList& active, std::int64_t count, const Tensor& to,
              float* inverse_norms) const;
  /// Applies to each row of the list, in the table, first the updates that it has missed and then
  /// this one.
  void move(const RowList& active, const CentreGradients& gradients,
            const MarginSoftmax::Update& update) const;
  /// Computes sums [slots[i]] += the gradient of row i; sums is [.., D].
  void add_gradients(const RowList& active, const CentreGradients& gradients, float* sums,
                     const std::int32_t* slots) const;

  /// Applies the missed updates to rows 0 to count - 1 of the list, in the table. `updates`:
  /// number of updates that the rows have then seen.
  void settle(const RowList& rows, std::int64_t count, std::int64_t updates) const;

 private:
  const CudaDevice& device_;
  const MarginSoftmaxOptions options_;
  const CentrePrecision precision_;
  const CentreTableView view_;
};

}  // namespace pfc
