#include "kernels/cpu/vector/isa.h"

namespace pfc::PFC_ISA {

namespace {

template <typename T>
constexpr ActivationKernels<T> kActivations = {
    .moments = moments<T>,
    .norm_forward = norm_forward<T>,
    .norm_backward_reduce = norm_backward_reduce<T>,
    .norm_backward_apply = norm_backward_apply<T>,
    .grouped_forward = grouped_forward<T>,
    .grouped_weight_gradient = grouped_weight_gradient<T>,
    .normalise_images = normalise_images<T>,
    .add = add<T>,
    .add_bias = add_bias<T>,
    .relu = relu<T>,
    .relu_backward = relu_backward<T>,
    .max_pool = max_pool<T>,
    .max_pool_backward = max_pool_backward<T>,
    .add_columns = add_columns<T>,
    .layer_norm = layer_norm<T>,
    .layer_norm_backward = layer_norm_backward<T>,
    .layer_norm_sums = layer_norm_sums<T>,
};

}  // namespace

extern const VectorKernels kTable;
const VectorKernels kTable = {
    .name = PFC_ISA_NAME,
    .floats = kActivations<float>,
    .halves = kActivations<BFloat16>,
    .outer_product = outer_product,
    .pack_pairs = pack_pairs,
    .pair_product = pair_product,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .normalise_rows = normalise_rows,
    .normalise_rows_backward = normalise_rows_backward,
    .sum_of_squares = sum_of_squares,
    .sgd = sgd,
    .adamw = adamw,
    .margin_logits = margin_logits,
    .margin_exp_sums = margin_exp_sums,
    .margin_binary_sums = margin_binary_sums,
    .margin_gradients = margin_gradients,
    .distilled_sums = distilled_sums,
    .distilled_gradients = distilled_gradients,
    .largest_cosines = largest_cosines,
    .spread_gradients = spread_gradients,
    .product_panel = kProductPanel,
    .product_rows = kProductRows,
    .float_product = float_product,
#ifdef __AVX512BF16__
    .bfloat16_product = bfloat16_product,
#else
    .bfloat16_product = nullptr,
#endif
    .pair_rows = pair_rows,
    .centre_sgd = centre_sgd,
    .centre_adamw = centre_adamw,
    .centre_squares = centre_squares,
    .centre_caught_up = centre_caught_up,
    .centre_settle = centre_settle,
    .add_centre_gradient = add_centre_gradient,
    .write_one_byte_row = write_one_byte_row,
    .read_one_byte_row = read_one_byte_row,
    .to_float = to_float,
    .to_bfloat16 = to_bfloat16,
    .blocks_below = blocks_below,
    .random_row = random_row,
    .normal_pairs = normal_pairs,
};

}  // namespace pfc::PFC_ISA
