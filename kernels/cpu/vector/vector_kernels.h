// The vectorised inner loops. Each runs in the calling thread, over the given rows or elements;
// the caller divides the work between threads. There is a table of functions for each instruction
// set; the best one for this machine is selected at run time.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/choices.h"
#include "kernels/math/bfloat16.h"
#include "kernels/math/missed_updates.h"
#include "kernels/math/one_byte.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/philox.h"
#include "kernels/math/pooling.h"

namespace pfc {

/// Sums over rows of (x - shift) and of its square, for each channel. The shift is the mean of the
/// first rows, so no digits are lost if |mean| >> standard deviation. Sums within a block of rows
/// are float32, those over blocks float64. The memory is borrowed.
struct Moments {
  float* shift;   ///< [channels]
  float* block1;  ///< [channels] sums of the current block
  float* block2;
  double* sum1;  ///< [channels]
  double* sum2;
};

/// Rows of a batch norm's forward pass: z = (x - mean) * scale + beta; y = prelu(z) + residual. T,
/// here and below: type of activations, float or BFloat16; the arithmetic is float32.
template <typename T>
struct NormForward {
  std::int64_t rows, channels;
  const T* x;
  const float *mean, *scale, *beta;
  const float* slope;  ///< nullptr: no PReLU
  const T* residual;   ///< nullptr: none
  T* y;
  const Moments* moments;  ///< receives the moments of y, or nullptr
};

/// Rows of a batch norm's backward passes (ops.h). inverse: 1 / sqrt(variance + eps).
template <typename T>
struct NormBackward {
  std::int64_t rows, channels;
  const T *dy, *x;
  const float *mean, *inverse, *scale, *beta;
  const float* slope;  ///< nullptr: no PReLU
  // For the reduce pass: sums over a block of rows, and over all rows.
  float *block_dz, *block_dz_xhat, *block_dslope;
  double *sum_dz, *sum_dz_xhat, *sum_dslope;
  // For the apply pass: the sums divided by the number of rows.
  const float *mean_dz, *mean_dz_xhat;
  const T* add;  ///< nullptr: none
  T* dx;
};

/// A tile of the margin softmax (kernels/cpu/margin/margin_tile.h). Its products [classes,
/// samples] are those of each centre (not normalised) with each normalised embedding.
struct MarginTile {
  std::int64_t classes, samples;
  const float* inverse_norm;  ///< [classes]; nullptr: the products are cosines
  float scale;
  float limit;                   ///< largest cosine: 1; infinity in a plain softmax
  float threshold;               ///< cosines above it count as 0; infinity: no filter
  const float* offsets;          ///< [classes], added to the logits; nullptr: `offset`
  float offset;                  ///< added to all logits
  const std::int64_t* left_out;  ///< [left_out_count], indices of the targets' products
  std::int64_t left_out_count;
  /// [samples]: a sample's softmax is over the classes from range_begin to before range_end,
  /// numbered like first_class. nullptr: all.
  const std::int32_t *range_begin, *range_end;
  /// [samples]: a cosine c above it counts as c (hardness + c). nullptr: none does.
  const float* hard_above;
  float hardness;
  const float* smoothing;    ///< [samples], for margin_gradients(); nullptr: 0
  bool binary;               ///< margin_gradients(): binary cross-entropy, not softmax
  std::int32_t first_class;  ///< number of the tile's first class
};

/// A tile of the distillation of logits. Its kernels take products [classes, samples] of each of
/// the network's centres (not normalised) with each normalised embedding, and the teacher's
/// cosines.
struct DistilledTile {
  std::int64_t classes, samples;
  const float* inverse_norm;  ///< [classes]
  float scale;                ///< scale of the logits / temperature
  /// [samples], for distilled_gradients(): factors of exp(logit) of the network and of the teacher.
  const float *network_factor, *teacher_factor;
};

/// The products of a tile [classes, sub_centres, samples], if a class has several centres.
struct SubCentreTile {
  std::int64_t classes, sub_centres, samples;
  const float* inverse_norm;  ///< [classes, sub_centres]
};

/// Contiguous memory that will soon be read or written.
struct Stretch {
  const void* begin;
  std::int64_t bytes;
};

/// Stretches that a product prefetches while it computes: `step` bytes with each of its inner
/// steps, so that memory is read at an even rate during the arithmetic. Each product continues
/// where the previous one ended.
struct PrefetchList {
  const Stretch* next = nullptr;
  const Stretch* end = nullptr;
  std::int64_t done = 0;  ///< bytes of *next
  std::int64_t step = 64;
};

/// c [rows, columns] = a [rows, depth] * b [depth, columns], or c += this product. a and b consist
/// of words: floats, or pairs of bfloat16 numbers, lower half first, that are adjacent in depth.
/// Column j of b is in panel j / product_panel. Every panel has whole vectors of words; words after
/// the last column are read and then ignored.
struct TileProduct {
  std::int64_t rows, columns, depth;
  const void* a;
  std::int64_t a_row, a_step;  ///< words between rows, and along the depth
  const void* b;
  std::int64_t b_panel, b_step;  ///< words between panels, and along the depth
  float* c;
  std::int64_t c_row;  ///< floats between rows
  bool add;
};

/// A class centre to update. Its numbers are stored with a CentrePrecision.
struct CentreRow {
  std::int64_t n;
  const float* gradient;  ///< [n], including the component along the centre
  float inverse_norm;     ///< 1 / length of the centre after its missed updates
  float along;            ///< length of the gradient's component along the centre; subtracted
  void* weight;
  void* momentum;  ///< SGD's velocity or AdamW's m; nullptr: SGD without momentum
  void* second;    ///< AdamW's v; nullptr: SGD
  // Only for one-byte numbers: their scales, and memory [n] each for an update.
  float *weight_scale, *momentum_scale;
  float *new_weight, *new_momentum;
  RoundingKey key;        ///< for the stochastic rounding of numbers with fewer bits than float32
  const CatchUp* missed;  ///< updates that the row has missed; nullptr if none
};

/// Copy of a class centre, after its missed updates, to `floats` or, rounded to nearest, to
/// `halves`; the other pointer is nullptr.
struct CaughtUpCentre {
  std::int64_t n;
  const void* weight;
  const void* momentum;                        ///< nullptr: SGD without momentum
  const void* second;                          ///< AdamW's v; nullptr: SGD
  const float *weight_scale, *momentum_scale;  ///< only of one-byte numbers
  const CatchUp* missed;                       ///< nullptr if none
  float* floats;
  BFloat16* halves;
};

/// The codes of a row of one-byte numbers.
struct OneByteRow {
  OneByteFormat format;
  std::uint8_t* codes;  ///< [n]
  std::int64_t n;
};

/// How a row is rounded: to the nearest numbers, or stochastically. Element i then uses
/// rounding_bits() of element first_element + i.
struct RowRounding {
  bool stochastic = false;
  RoundingKey key = {};
  std::int64_t first_element = 0;
};

/// The words of random_words(seed, stream, a, b) for b = first, first + 1, ... If late is above 0,
/// block b has a + 1 instead of a if word 0 of random_words(seed, Stream::kSamplePhase, 0, b) is at
/// least `late`.
struct RandomBlocks {
  std::uint64_t seed;
  Stream stream;
  std::uint32_t a;
  std::uint32_t late;
  std::uint64_t first;
  std::int64_t blocks;
};

/// The words of random_words(seed, stream, a, row), random_words(seed, stream, a + 1, row), ...
struct RandomRow {
  std::uint64_t seed;
  Stream stream;
  std::uint32_t a;
  std::uint64_t row;
  std::int64_t blocks;  ///< multiple of kRandomBlocks
};
constexpr std::int64_t kRandomBlocks = 16;

/// Computes c[b * c_stride + v] += the float32 sum over rows r and k < length of broadcast[b] *
/// vector[v], for all b < broadcasts and v < vectors, where vector = vector_rows[r] + k *
/// vector_step, and broadcast = broadcast_rows[r] + k * broadcast_step.
struct OuterProduct {
  const float* const* vector_rows;     ///< [rows] addresses
  const float* const* broadcast_rows;  ///< [rows] addresses
  std::int64_t rows, length;
  std::int64_t vector_step, broadcast_step;
  std::int64_t vectors, broadcasts;
  float* c;
  std::int64_t c_stride;
};

/// Two bfloat16 numbers: the first in the lower half.
using BFloat16Pair = std::uint32_t;

/// Pairs of pixels of a row of an image [pixels, channels], channel by channel: pair i consists of
/// pixel first + i * step and the pixel `gap` after it. Pixels outside the row are zeros. Channels
/// are stored in panels of `panel` channels, the last of which may have fewer: pairs[p *
/// panel_stride + i * panel + c] is channel p * panel + c of pair i.
struct PackedPairs {
  const BFloat16* row;
  std::int64_t pixels, pixel_stride;  ///< number in the row; elements between two pixels
  std::int64_t channels;
  std::int64_t first, step, gap, count;
  std::int64_t panel, panel_stride;
  BFloat16Pair* pairs;
};

/// Computes c[b * c_stride + v] += the float32 sum over rows r and k < length of the two products
/// of broadcast[b] with vector[v], for all b < broadcasts and v < vectors, where vector =
/// vector_rows[r] + k * vector_step, and broadcast = broadcast_rows[r] + k * broadcast_step.
struct PairProduct {
  const BFloat16Pair* const* vector_rows;     ///< [rows] addresses
  const BFloat16Pair* const* broadcast_rows;  ///< [rows] addresses
  std::int64_t rows, length;
  std::int64_t vector_step, broadcast_step;
  std::int64_t vectors, broadcasts;
  float* c;
  std::int64_t c_stride;
};
/// Panel sizes of pair_product: broadcasts and vectors computed at once.
inline constexpr std::int64_t kPairBroadcasts = 6;
inline constexpr std::int64_t kPairVectors = 64;

/// A convolution with one channel per group, or two with `pairs`. Weights and their gradients are
/// [kernel, kernel, kind, input channels]. Kind 0: the weight for the output channel with the input
/// channel's number. Kind 1, only with `pairs`: the weight for the other output channel of the
/// pair.
template <typename T>
struct GroupedConv {
  std::int64_t in_h, in_w, out_h, out_w, channels, kernel, stride, pad;
  bool pairs;
  const T* x;
  const float* weights;
  T* y;  ///< in grouped_weight_gradient: dy, read-only
  // Only for grouped_weight_gradient, both in the layout of the weights. `sums`: float32 sums over
  // some pixels, zero before and after the call. `gradients`: sums over all pixels; the call adds
  // to them.
  float* sums;
  double* gradients;
};

/// A max pooling (ops.h). For its gradient, x is dx and y is dy.
template <typename T>
struct MaxPool {
  PoolWindow rows, columns;
  std::int64_t channels;
  T *x, *y;
  std::uint8_t* winners;  ///< nullptr: not needed
};

/// Rows of a layer norm (ops.h). statistics [rows, 2]: mean and 1 / sqrt(variance + eps).
template <typename T>
struct LayerNormRows {
  std::int64_t rows, n;
  const float *x, *gamma, *beta;
  float eps;
  T* y;
  float* statistics;
};
template <typename T>
struct LayerNormBackwardRows {
  std::int64_t rows, n;
  const T* dy;
  const float *x, *statistics, *gamma;
  const float* add;  ///< nullptr: none
  float* dx;
};
/// Columns of a layer norm: sums over rows for the gradients of gamma and beta.
template <typename T>
struct LayerNormColumns {
  std::int64_t rows, n, width;  ///< n: distance between rows
  const T* dy;
  const float *x, *statistics;
  double *dgamma, *dbeta;  ///< [width], to which the sums are added
};

/// Rows of numbers, `stride` apart.
struct StridedRows {
  float* x;
  std::int64_t rows, n, stride;
};

/// Loops over activations of one type.
template <typename T>
struct ActivationKernels {
  void (*moments)(const T* x, std::int64_t rows, std::int64_t channels, const Moments& m);
  void (*norm_forward)(const NormForward<T>& f);
  void (*norm_backward_reduce)(const NormBackward<T>& b);
  void (*norm_backward_apply)(const NormBackward<T>& b);

  /// Computes rows [begin, end) of the batch * out_h output rows.
  void (*grouped_forward)(const GroupedConv<T>& g, std::int64_t begin, std::int64_t end);
  /// Computes the gradient for channels [first, first + channels), over all `rows` = batch *
  /// out_h. REQUIRES: first is even; the kernel size is 3 or 7.
  void (*grouped_weight_gradient)(const GroupedConv<T>& g, std::int64_t rows, std::int64_t first,
                                  std::int64_t channels);

  void (*normalise_images)(const std::uint8_t* x, T* y, std::int64_t n);
  void (*add)(const T* a, const T* b, T* y, std::int64_t n);
  /// Computes y += bias for each row; with `relu6`, y = min(max(y + bias, 0), 6).
  void (*add_bias)(T* y, const float* bias, std::int64_t rows, std::int64_t n, bool relu6);
  void (*relu)(T* y, std::int64_t n);
  void (*relu_backward)(const T* y, T* dy, std::int64_t n, float bound);
  /// Compute rows [begin, end) of the batch * out_h rows of y, or of the batch * in_h rows of dx.
  void (*max_pool)(const MaxPool<T>& p, std::int64_t begin, std::int64_t end);
  void (*max_pool_backward)(const MaxPool<T>& p, std::int64_t begin, std::int64_t end);
  /// Computes sums[i] += the sum over rows r of x[r * stride + i], for i < width.
  void (*add_columns)(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width,
                      double* sums);
  void (*layer_norm)(const LayerNormRows<T>& l);
  void (*layer_norm_backward)(const LayerNormBackwardRows<T>& l);
  void (*layer_norm_sums)(const LayerNormColumns<T>& l);
};

struct VectorKernels {
  const char* name;  ///< "AVX-512"

  ActivationKernels<float> floats;
  ActivationKernels<BFloat16> halves;
  template <typename T>
  [[nodiscard]] const ActivationKernels<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return floats;
    } else {
      return halves;
    }
  }

  void (*outer_product)(const OuterProduct& p);
  void (*pack_pairs)(const PackedPairs& p);
  void (*pair_product)(const PairProduct& p);

  /// Replaces each row x by softmax(scale * x). REQUIRES: scale > 0.
  void (*softmax)(const StridedRows& x, float scale);
  /// Replaces dy, the gradient of a softmax's results y, by the gradient of its inputs x. y has the
  /// same stride.
  void (*softmax_backward)(const StridedRows& dy, const float* y, float scale);

  void (*normalise_rows)(const float* x, float* y, float* inverse_norm, std::int64_t rows,
                         std::int64_t n);
  void (*normalise_rows_backward)(const float* dy, const float* y, const float* inverse_norm,
                                  float* dx, std::int64_t rows, std::int64_t n);

  double (*sum_of_squares)(const float* x, std::int64_t n);
  /// operand: receives the new weights, rounded to nearest, or nullptr.
  void (*sgd)(const SgdOptions& o, float gradient_scale, const float* gradient, float* weight,
              float* velocity, BFloat16* operand, std::int64_t n);
  void (*adamw)(const AdamWOptions& o, float gradient_scale, const float* gradient, float* weight,
                float* m, float* v, BFloat16* operand, std::int64_t n);

  /// Computes the logits from the products: -infinity for targets and for classes outside a
  /// sample's range. Also computes the largest logit of each sample, max [samples]. logits may be
  /// the same memory as products.
  void (*margin_logits)(const MarginTile& t, const float* products, float* logits, float* max);
  /// Computes sums [samples] of exp(logit - max) over the tile's classes. REQUIRES: logit <= max.
  void (*margin_exp_sums)(const MarginTile& t, const float* logits, const float* max, float* sums);
  /// Sums over the tile's classes: losses [samples] of log(1 + exp(logit)), probabilities [samples]
  /// of sigmoid(logit). A logit of -infinity adds 0.
  void (*margin_binary_sums)(const MarginTile& t, const float* logits, float* losses,
                             float* probabilities);
  /// Computes gradients = (factor * exp(logit - max) - smoothing) * inverse_norm, and 0 for classes
  /// that are excluded, filtered or outside a range, whose logits may exceed max. In a binary tile
  /// sigmoid(logit) replaces exp(logit - max). The sum over samples of gradients * embedding is a
  /// centre's gradient, and along [classes] is the length of its component along the centre.
  /// Overwrites the products; gradients may be the same memory.
  void (*margin_gradients)(const MarginTile& t, float* products, const float* max,
                           const float* factor, float* gradients, float* along);
  /// Computes the DistilledSums of the tile's classes: sums [3, samples], in the order of the
  /// struct.
  void (*distilled_sums)(const DistilledTile& t, const float* products, const float* cosines,
                         float* sums);
  /// Replaces the cosines by the gradients of the loss of logits, and fills `along`. Both have the
  /// form that margin_gradients() gives them.
  void (*distilled_gradients)(const DistilledTile& t, const float* products, float* cosines,
                              float* along);
  /// Fills cosines [classes, samples] with the largest cosine of each class, and winners with the
  /// number of its sub-centre, the first of equal ones. A NaN counts as the largest.
  void (*largest_cosines)(const SubCentreTile& t, const float* products, float* cosines,
                          float* winners);
  /// The backward pass of largest_cosines(): fills gradients [classes, sub_centres, samples] with
  /// d_cosines [classes, samples] / the centre's length for winners, 0 for others, and along
  /// [classes, sub_centres] as margin_gradients() does. gradients may be the same memory as
  /// products.
  void (*spread_gradients)(const SubCentreTile& t, const float* products, const float* d_cosines,
                           const float* winners, float* gradients, float* along);

  std::int64_t product_panel;  ///< columns of a panel
  std::int64_t product_rows;   ///< rows that an inner step of a product multiplies with one panel
  void (*float_product)(const TileProduct& p, PrefetchList& soon);
  /// Multiplies pairs of bfloat16 numbers, with float32 sums. nullptr if the CPU cannot do this.
  void (*bfloat16_product)(const TileProduct& p, PrefetchList& soon);
  /// Computes pairs [(rows + 1) / 2, columns], `stride` words per row: rows 2 i and 2 i + 1 of x,
  /// interleaved; an unpaired last row is paired with zeros. REQUIRES: columns is a multiple of
  /// 16.
  void (*pair_rows)(const BFloat16* x, std::int64_t x_stride, std::int64_t rows,
                    std::int64_t columns, std::uint32_t* pairs, std::int64_t stride);

  /// Update a centre, and return its new squared length.
  double (*centre_sgd)(CentrePrecision precision, const SgdOptions& o, const CentreRow& row);
  double (*centre_adamw)(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row);
  /// Returns the squared length of a stored centre. Reads only n, weight and weight_scale.
  double (*centre_squares)(CentrePrecision precision, const CentreRow& row);
  /// Copies a centre, and returns its squared length before rounding.
  double (*centre_caught_up)(CentrePrecision precision, const CaughtUpCentre& centre);
  /// Applies only the missed updates to the row, and returns the new squared length.
  double (*centre_settle)(CentrePrecision precision, const CentreRow& row);
  /// Computes sum [n] += the gradient without its component along the centre.
  void (*add_centre_gradient)(CentrePrecision precision, const CentreRow& row, float* sum);
  /// Rounds x [n] to one-byte numbers, stores their codes, and returns the row's scale. Replaces x
  /// by the rounded numbers.
  float (*write_one_byte_row)(const OneByteRow& row, const RowRounding& rounding, float* x);
  void (*read_one_byte_row)(const OneByteRow& row, float scale, float* x);  ///< fills x [n]
  void (*to_float)(const BFloat16* x, float* y, std::int64_t n);
  void (*to_bfloat16)(const float* x, BFloat16* y, std::int64_t n);  ///< rounds to nearest

  /// Sets bit k in hits [blocks] if the upper 24 bits of word k of the block are below limit.
  void (*blocks_below)(const RandomBlocks& r, std::uint32_t limit, std::uint8_t* hits);
  /// Writes words [blocks, 4].
  void (*random_row)(const RandomRow& r, std::uint32_t* words);
  /// Computes numbers [pairs, 2] = box_muller(words[i][0], words[i][1]) for words [pairs, 2].
  /// Returns false if the last bit of a number may be wrong, which happens about once in 2 million
  /// pairs. `pairs` is a multiple of kRandomBlocks.
  bool (*normal_pairs)(const std::uint32_t* words, std::int64_t pairs, float* numbers);
};

/// Returns the tables that this CPU and system can run, widest instruction set first.
std::span<const VectorKernels* const> runnable_vector_kernels();
inline const VectorKernels& best_vector_kernels() { return *runnable_vector_kernels().front(); }

}  // namespace pfc
