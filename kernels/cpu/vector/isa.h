// What this folder's files define, once per instruction set; contracts are in vector_kernels.h.
#pragma once

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc::PFC_ISA {

void moments(const float* x, std::int64_t rows, std::int64_t channels, const Moments& m);
void norm_forward(const NormForward& f);
void norm_backward_reduce(const NormBackward& b);
void norm_backward_apply(const NormBackward& b);

void outer_product(const OuterProduct& p);

void grouped_forward(const GroupedConv& g, std::int64_t begin, std::int64_t end);
void grouped_weight_gradient(const GroupedConv& g, std::int64_t rows, std::int64_t first,
                             std::int64_t channels);

void normalise_images(const std::uint8_t* x, float* y, std::int64_t n);
void add(const float* a, const float* b, float* y, std::int64_t n);
void scale(float* x, float factor, std::int64_t n);
void add_bias(float* y, const float* bias, std::int64_t rows, std::int64_t n);
void add_columns(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t width,
                 double* sums);

void normalise_rows(const float* x, float* y, float* inverse_norm, std::int64_t rows,
                    std::int64_t n);
void normalise_rows_backward(const float* dy, const float* y, const float* inverse_norm, float* dx,
                             std::int64_t rows, std::int64_t n);

double sum_of_squares(const float* x, std::int64_t n);
bool all_finite(const float* x, std::int64_t n);
void sgd(const SgdOptions& o, float gradient_scale, const float* gradient, float* weight,
         float* velocity, std::int64_t n);
void adamw(const AdamWOptions& o, float gradient_scale, const float* gradient, float* weight,
           float* m, float* v, std::int64_t n);

void margin_logits(const MarginTile& t, float* products, float* max);
void margin_exp_sums(const MarginTile& t, const float* logits, const float* max, float* sums);
void margin_gradients(const MarginTile& t, float* products, const float* max, const float* factor);
void project_off(const float* direction, float inverse_norm, float* gradient, std::int64_t n);

}  // namespace pfc::PFC_ISA
