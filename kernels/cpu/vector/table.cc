#include "kernels/cpu/vector/isa.h"

namespace pfc::PFC_ISA {

extern const VectorKernels kTable;
const VectorKernels kTable = {
    .name = PFC_ISA_NAME,
    .moments = moments,
    .norm_forward = norm_forward,
    .norm_backward_reduce = norm_backward_reduce,
    .norm_backward_apply = norm_backward_apply,
    .outer_product = outer_product,
    .grouped_forward = grouped_forward,
    .grouped_weight_gradient = grouped_weight_gradient,
    .normalise_images = normalise_images,
    .add = add,
    .scale = scale,
    .add_bias = add_bias,
    .add_columns = add_columns,
    .normalise_rows = normalise_rows,
    .normalise_rows_backward = normalise_rows_backward,
    .sum_of_squares = sum_of_squares,
    .all_finite = all_finite,
    .sgd = sgd,
    .adamw = adamw,
    .margin_logits = margin_logits,
    .margin_exp_sums = margin_exp_sums,
    .margin_gradients = margin_gradients,
    .project_off = project_off,
};

}  // namespace pfc::PFC_ISA
