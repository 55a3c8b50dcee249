// Functions that this folder defines for each instruction set. vector_kernels.h describes them.
#pragma once

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc::PFC_ISA {

// For float and BFloat16.
template <typename T>
void moments(const T* x, std::int64_t rows, std::int64_t channels, const Moments& m);
template <typename T>
void norm_forward(const NormForward<T>& f);
template <typename T>
void norm_backward_reduce(const NormBackward<T>& b);
template <typename T>
void norm_backward_apply(const NormBackward<T>& b);
template <typename T>
void grouped_forward(const GroupedConv<T>& g, std::int64_t begin, std::int64_t end);
template <typename T>
void grouped_weight_gradient(const GroupedConv<T>& g, std::int64_t rows, std::int64_t first,
                             std::int64_t channels);
template <typename T>
void normalise_images(const std::uint8_t* x, T* y, std::int64_t n);
template <typename T>
void add(const T* a, const T* b, T* y, std::int64_t n);
template <typename T>
void add_bias(T* y, const float* bias, std::int64_t rows, std::int64_t n, bool relu6);
template <typename T>
void relu(T* y, std::int64_t n);
template <typename T>
void relu_backward(const T* y, T* dy, std::int64_t n, float bound);
template <typename T>
void max_pool(const MaxPool<T>& p, std::int64_t begin, std::int64_t end);
template <typename T>
void max_pool_backward(const MaxPool<T>& p, std::int64_t begin, std::int64_t end);
template <typename T>
void add_columns(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width,
                 double* sums);
template <typename T>
void layer_norm(const LayerNormRows<T>& l);
template <typename T>
void layer_norm_backward(const LayerNormBackwardRows<T>& l);
template <typename T>
void layer_norm_sums(const LayerNormColumns<T>& l);

void outer_product(const OuterProduct& p);
void pack_pairs(const PackedPairs& p);
void pair_product(const PairProduct& p);

void softmax(const StridedRows& x, float scale);
void softmax_backward(const StridedRows& dy, const float* y, float scale);

void normalise_rows(const float* x, float* y, float* inverse_norm, std::int64_t rows,
                    std::int64_t n);
void normalise_rows_backward(const float* dy, const float* y, const float* inverse_norm, float* dx,
                             std::int64_t rows, std::int64_t n);

double sum_of_squares(const float* x, std::int64_t n);
void sgd(const SgdOptions& o, float gradient_scale, const float* gradient, float* weight,
         float* velocity, BFloat16* operand, std::int64_t n);
void adamw(const AdamWOptions& o, float gradient_scale, const float* gradient, float* weight,
           float* m, float* v, BFloat16* operand, std::int64_t n);

void margin_logits(const MarginTile& t, const float* products, float* logits, float* max);
void margin_exp_sums(const MarginTile& t, const float* logits, const float* max, float* sums);
void margin_binary_sums(const MarginTile& t, const float* logits, float* losses,
                        float* probabilities);
void margin_gradients(const MarginTile& t, float* products, const float* max, const float* factor,
                      float* gradients, float* along);
void distilled_sums(const DistilledTile& t, const float* products, const float* cosines,
                    float* sums);
void distilled_gradients(const DistilledTile& t, const float* products, float* cosines,
                         float* along);
void largest_cosines(const SubCentreTile& t, const float* products, float* cosines, float* winners);
void spread_gradients(const SubCentreTile& t, const float* products, const float* d_cosines,
                      const float* winners, float* gradients, float* along);

constexpr std::int64_t kProductPanel = PFC_VECTOR_BYTES == 64 ? 64 : PFC_VECTOR_BYTES / 2;
constexpr std::int64_t kProductRows = 6;
void float_product(const TileProduct& p, PrefetchList& soon);
void bfloat16_product(const TileProduct& p, PrefetchList& soon);  // only for avx512_bf16
void pair_rows(const BFloat16* x, std::int64_t x_stride, std::int64_t rows, std::int64_t columns,
               std::uint32_t* pairs, std::int64_t stride);

double centre_sgd(CentrePrecision precision, const SgdOptions& o, const CentreRow& row);
double centre_adamw(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row);
double centre_squares(CentrePrecision precision, const CentreRow& row);
double centre_caught_up(CentrePrecision precision, const CaughtUpCentre& centre);
double centre_settle(CentrePrecision precision, const CentreRow& row);
void add_centre_gradient(CentrePrecision precision, const CentreRow& row, float* sum);
/// Same as write_one_byte_row(), for a row whose largest magnitude has these bits.
float write_measured_row(const OneByteRow& row, const RowRounding& rounding, std::uint32_t largest,
                         float* x);
float write_one_byte_row(const OneByteRow& row, const RowRounding& rounding, float* x);
void read_one_byte_row(const OneByteRow& row, float scale, float* x);
void to_float(const BFloat16* x, float* y, std::int64_t n);
void to_bfloat16(const float* x, BFloat16* y, std::int64_t n);

void blocks_below(const RandomBlocks& r, std::uint32_t limit, std::uint8_t* hits);
void random_row(const RandomRow& r, std::uint32_t* words);
bool normal_pairs(const std::uint32_t* words, std::int64_t pairs, float* numbers);

}  // namespace pfc::PFC_ISA
