// The vectorised inner loops: serial, over a part of the rows or elements; threads are the
// caller's. One table per instruction set; the best that the machine can run is chosen once.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/config.h"
#include "kernels/math/bfloat16.h"
#include "kernels/math/missed_updates.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/philox.h"

namespace pfc {

/// Sums of (x - shift) and its square over rows, by channel: safe where |mean| >> deviation, since
/// the shift is the mean of the first rows. float64 between blocks of rows. Borrowed memory.
struct Moments {
  float* shift;   ///< [channels]
  float* block1;  ///< [channels] float32 sums of the present block
  float* block2;
  double* sum1;  ///< [channels]
  double* sum2;
};

/// Rows of a batch norm's forward pass: z = (x - mean) * scale + beta; y = prelu(z) + residual.
struct NormForward {
  std::int64_t rows, channels;
  const float *x, *mean, *scale, *beta;
  const float* slope;     ///< null: no PReLU
  const float* residual;  ///< null: none
  float* y;
  const Moments* moments;  ///< null, or receives y's
};

/// Rows of a batch norm's backward passes (ops.h). inverse: 1 / sqrt(variance + eps).
struct NormBackward {
  std::int64_t rows, channels;
  const float *dy, *x, *mean, *inverse, *scale, *beta;
  const float* slope;  ///< null: no PReLU
  // The reduce pass: float32 sums of a block of rows, and the float64 sums.
  float *block_dz, *block_dz_xhat, *block_dslope;
  double *sum_dz, *sum_dz_xhat, *sum_dslope;
  // The apply pass: sums divided by the number of rows.
  const float *mean_dz, *mean_dz_xhat;
  const float* add;  ///< null: none
  float* dx;
};

/// A tile of the margin softmax (kernels/cpu/margin/margin_tile.h). Products are [classes,
/// samples]: of each centre, not normalised, with each normalised embedding.
struct MarginTile {
  std::int64_t classes, samples;
  const float* inverse_norm;  ///< [classes]
  float scale;
  float threshold;             ///< a cosine above it counts as 0; infinity: no filter
  const std::int64_t* target;  ///< [targets] elements of products that are their sample's target
  std::int64_t targets;
};

/// A class centre that is about to move. Numbers are kept as CentrePrecision says.
struct CentreRow {
  std::int64_t n;
  const float* gradient;  ///< [n], not yet projected
  float inverse_norm;     ///< of the centre, caught up
  float along;            ///< the gradient's part along the centre, which does not move it
  void* weight;
  void* momentum;         ///< SGD's velocity or AdamW's m
  void* second;           ///< AdamW's v
  RoundingKey key;        ///< of what is kept as bfloat16
  const CatchUp* missed;  ///< SGD's updates that it has yet to catch up with; null: none
};

/// A class centre as after the updates that it has missed, to be copied to `floats` or, rounded to
/// the nearest, to `halves`; the other is null.
struct CaughtUpCentre {
  std::int64_t n;
  const void* weight;
  const void* momentum;
  CatchUp missed;
  float* floats;
  BFloat16* halves;
};

/// Philox blocks first, first + 1, ... of random_words(seed, stream, a, .).
struct RandomBlocks {
  std::uint64_t seed;
  Stream stream;
  std::uint32_t a;
  std::uint64_t first;
  std::int64_t blocks;
};

/// c[b * c_stride + v] += broadcast[b] * vector[v] for all b < broadcasts and v < vectors, summed
/// over rows r and k < length; vector = vector_rows[r] + k * vector_step, broadcast likewise.
struct OuterProduct {
  const float* const* vector_rows;     ///< [rows] addresses
  const float* const* broadcast_rows;  ///< [rows] addresses
  std::int64_t rows, length;
  std::int64_t vector_step, broadcast_step;
  std::int64_t vectors, broadcasts;
  float* c;
  std::int64_t c_stride;
};

/// A convolution with one or two (`pairs`) channels a group. Weights and their gradients are
/// [kernel, kernel, 1 or 2, channels], by input channel: what it is multiplied by for the output of
/// the same channel, and (pairs) for the output of the other one of its pair.
struct GroupedConv {
  std::int64_t in_h, in_w, out_h, out_w, channels, kernel, stride, pad;
  bool pairs;
  const float* x;
  const float* weights;
  float* y;          ///< weight gradient: dy, only read
  float* gradients;  ///< weight gradient: added to
};

struct VectorKernels {
  const char* name;  ///< "AVX-512"

  void (*moments)(const float* x, std::int64_t rows, std::int64_t channels, const Moments& m);
  void (*norm_forward)(const NormForward& f);
  void (*norm_backward_reduce)(const NormBackward& b);
  void (*norm_backward_apply)(const NormBackward& b);

  void (*outer_product)(const OuterProduct& p);

  /// Rows [begin, end) of the batch * out_h output rows.
  void (*grouped_forward)(const GroupedConv& g, std::int64_t begin, std::int64_t end);
  /// All `rows` = batch * out_h, for channels [first, first + channels); first is even. Kernels of
  /// 3 and 7.
  void (*grouped_weight_gradient)(const GroupedConv& g, std::int64_t rows, std::int64_t first,
                                  std::int64_t channels);

  void (*normalise_images)(const std::uint8_t* x, float* y, std::int64_t n);
  void (*add)(const float* a, const float* b, float* y, std::int64_t n);
  void (*add_bias)(float* y, const float* bias, std::int64_t rows, std::int64_t n);
  /// sums [width] += x[r * stride + i] over rows r.
  void (*add_columns)(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t width,
                      double* sums);

  void (*normalise_rows)(const float* x, float* y, float* inverse_norm, std::int64_t rows,
                         std::int64_t n);
  void (*normalise_rows_backward)(const float* dy, const float* y, const float* inverse_norm,
                                  float* dx, std::int64_t rows, std::int64_t n);

  double (*sum_of_squares)(const float* x, std::int64_t n);
  bool (*all_finite)(const float* x, std::int64_t n);
  void (*sgd)(const SgdOptions& o, float gradient_scale, const float* gradient, float* weight,
              float* velocity, std::int64_t n);
  void (*adamw)(const AdamWOptions& o, float gradient_scale, const float* gradient, float* weight,
                float* m, float* v, std::int64_t n);

  /// logits of products (targets: -infinity; may be the same memory); max [samples]: the largest of
  /// each sample.
  void (*margin_logits)(const MarginTile& t, const float* products, float* logits, float* max);
  /// sums [samples] = sum over the tile's classes of exp(logit - max), where logit <= max.
  void (*margin_exp_sums)(const MarginTile& t, const float* logits, const float* max, float* sums);
  /// gradients = factor * exp(logit - max) * inverse_norm (targets and filtered ones: 0): what the
  /// sum over samples of gradient * embedding makes a centre's gradient, before normalisation
  /// takes its part along the centre off: that part is along [classes]. Uses up the products;
  /// gradients may be the same memory.
  void (*margin_gradients)(const MarginTile& t, float* products, const float* max,
                           const float* factor, float* gradients, float* along);

  /// Moves a centre; returns its new squared length.
  double (*centre_sgd)(CentrePrecision precision, const SgdOptions& o, const CentreRow& row);
  double (*centre_adamw)(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row);
  double (*centre_squares)(CentrePrecision precision, const void* weight, std::int64_t n);
  /// Returns the centre's squared length before it is rounded.
  double (*centre_caught_up)(CentrePrecision precision, const CaughtUpCentre& centre);
  /// Centre and momentum as after the updates missed (gradient: unused); returns the new squared
  /// length.
  double (*centre_settle)(CentrePrecision precision, const CentreRow& row);
  /// sum [n] += the gradient's part across the centre.
  void (*add_centre_gradient)(CentrePrecision precision, const CentreRow& row, float* sum);
  void (*to_float)(const BFloat16* x, float* y, std::int64_t n);
  void (*to_bfloat16)(const float* x, BFloat16* y, std::int64_t n);  ///< to the nearest

  /// hits [blocks]: bit k says whether the upper 24 bits of word k are below limit.
  void (*blocks_below)(const RandomBlocks& r, std::uint32_t limit, std::uint8_t* hits);
};

/// The tables that this CPU (and its operating system) can run, widest instruction set first.
std::span<const VectorKernels* const> runnable_vector_kernels();
inline const VectorKernels& best_vector_kernels() { return *runnable_vector_kernels().front(); }

}  // namespace pfc
