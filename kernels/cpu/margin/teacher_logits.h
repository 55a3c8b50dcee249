// The distillation of logits on a CPU (kernels/margin/logit_distillation.h): the teacher's cosines
// for each tile of the margin softmax, their sums and gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cpu/runtime/aligned_vector.h"
#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// Shared by the threads of a team. Each thread passes its number as `part`.
class TeacherLogits {
 public:
  TeacherLogits(const MarginSoftmaxOptions& options, const VectorKernels& kernels);

  /// Begins a step. embeddings: the teacher's, [N, D], not normalised. centres: the teacher's,
  /// [R, D], from class first_class on; borrowed. REQUIRES: called outside the team.
  void begin(CpuOps& ops, const Tensor& embeddings, const Tensor& centres,
             std::int64_t first_class);

  struct Tile {
    std::span<const std::int64_t> classes;  ///< at most kTileRows
    const float* products;                  ///< [classes, N], of the network
    const float* inverse_norms;             ///< [classes], of the network's centres
  };
  /// Sets the thread's sums to 0.
  void begin_forward(int part);
  /// Adds the tile to the thread's sums. REQUIRES: begin_forward(part) came first.
  void forward(int part, const Tile& tile);
  /// Returns the sums over the tiles of all threads.
  [[nodiscard]] DistilledSums sums(std::int64_t sample) const;

  /// Sets the sums over all workers, float32 [3, N]. Returns the mean loss over N, without its
  /// weight.
  double combine(const float* sums);
  /// Sets the factor of the gradients. REQUIRES: combine() came first.
  void set_gradient_scale(double gradient_scale);
  /// Computes the tile's gradients. add_gradients() then adds them to `gradients` [classes, N] and
  /// `along` [classes] (MarginTile). The caller may overwrite the products between the two calls.
  void backward(int part, const Tile& tile);
  void add_gradients(int part, std::int64_t classes, float* gradients, float* along) const;

  /// Returns whether oneDNN failed on a product of any thread.
  [[nodiscard]] bool failed() const { return std::ranges::any_of(parts_, &Part::failed); }
  /// Returns the memory for steps of N samples; 0 without distillation.
  [[nodiscard]] static std::int64_t bytes(const MarginSoftmaxOptions& options, std::int64_t samples,
                                          int threads);

 private:
  /// Memory of one thread.
  struct Part {
    AlignedVector<std::byte> rows;                   // [tile, stride]: the teacher's centres
    AlignedVector<float> cosines, tile_sums, along;  // [tile, N], [3, N], [tile]
    AlignedVector<double> sums;                      // [3, N]
    bool failed = false;
  };

  template <typename F>
  void each_array(std::size_t samples, int threads, const F& f);
  void find_cosines(int part, const Tile& tile);
  [[nodiscard]] DistilledTile describe(const Tile& tile) const;

  const MarginSoftmaxOptions& options_;
  const VectorKernels& kernels_;
  const std::int64_t dimension_;
  std::unique_ptr<TileProducts> products_;  // made by the first begin()
  std::int64_t samples_ = 0, first_class_ = 0;
  Tensor centres_;
  AlignedVector<float> unit_, inverse_norms_;             // [N, D], [N]
  AlignedVector<float> network_factor_, teacher_factor_;  // [N]
  std::vector<DistilledSums> all_;                        // [N], over all workers
  std::vector<Part> parts_;
};

}  // namespace pfc
