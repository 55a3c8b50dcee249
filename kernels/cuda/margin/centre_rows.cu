#include <limits>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/warp_centre.h"

namespace pfc {
namespace {

template <typename Row>
__global__ void inverse_norms_kernel(CentreTableView table, std::int64_t begin, std::int64_t end) {
  const std::int64_t i = begin + index_of_warp();
  if (i >= end) return;
  const Row row(table, {}, i);
  float squares = 0;
  for (std::int64_t k = threadIdx.x % kWarp * kPack; k < row.dimension; k += kWarpPacks) {
    squares += sum_of_squares(row.load(k));
  }
  const float inverse =
      inverse_norm_of(table, squares, [&](std::int64_t k) { return row.load(k); });
  if (threadIdx.x % kWarp == 0) table.inverse_norm[i] = inverse;
}

template <typename Row, typename To>
__global__ void gather_kernel(CentreTableView table, RowList active, std::int64_t count,
                              std::int64_t padded, std::int64_t padded_dimension, To* to,
                              float* inverse_norms) {
  const std::int64_t i = index_of_warp();
  if (i >= padded) return;
  const std::int64_t first = threadIdx.x % kWarp * kPack;
  To* const out = to + i * padded_dimension;
  if (i >= count) {
    for (std::int64_t k = first; k < padded_dimension; k += kWarpPacks)
      store_pack(out + k, Pack<To>{});
    if (first == 0) inverse_norms[i] = 0.f;
    return;
  }
  const Row row(table, active, i);
  float squares = 0;
  for (std::int64_t k = first; k < padded_dimension; k += kWarpPacks) {
    const Pack<float> w = row.load(k);
    squares += sum_of_squares(w);
    Pack<To> numbers;
#pragma unroll
    for (int e = 0; e < kPack; ++e) numbers.x[e] = from_float<To>(w.x[e]);
    store_pack(out + k, numbers);
  }
  float inverse = 0.f;
  if (row.missed) {  // the same for the whole warp
    inverse = inverse_norm_of(table, squares, [&](std::int64_t k) { return row.load(k); });
  } else {
    inverse = table.inverse_norm[row.number];
  }
  if (first == 0) inverse_norms[i] = inverse;
}

CentreTableView view_of(const CentreTable& t, const MarginSoftmaxOptions& o) {
  if (t.weight.shape[0] > std::numeric_limits<std::int32_t>::max()) {
    throw InputError("margin softmax: found a shard of " + std::to_string(t.weight.shape[0]) +
                     " class centres on one GPU, expected fewer than 2^31; use more workers");
  }
  return {.first_centre = t.first_class * o.sub_centres,
          .rows = t.weight.shape[0],
          .dimension = t.weight.shape[1],
          .weight = t.weight.data,
          .momentum = t.momentum.data,
          .second = t.second.data,
          .weight_scales = t.weight.scales.f32(),
          .momentum_scales = t.momentum.scales.f32(),
          .inverse_norm = t.inverse_norm.f32(),
          .packs = t.weight.shape[1] % kPack == 0 && aligned(t.weight.data) &&
                   aligned(t.momentum.data) && aligned(t.second.data),
          .plain = is_plain(o)};
}

}  // namespace

CudaCentreRows::CudaCentreRows(const CudaDevice& device, const CentreTable& table,
                               const MarginSoftmaxOptions& options)
    : device_(device),
      options_(options),
      precision_(precision_of(table)),
      view_(view_of(table, options)) {}

void* CudaCentreRows::operand(std::int64_t first, DType type) const {
  const DType kept = weight_type(precision_);
  if (type != kept || !view_.packs) return nullptr;
  return static_cast<std::byte*>(view_.weight) +
         first * view_.dimension * static_cast<std::int64_t>(size_of(kept));
}

void CudaCentreRows::compute_inverse_norms(std::int64_t begin, std::int64_t end) const {
  if (begin == end) return;
  with_warp_centre(precision_, has_second(), [&](auto* row) {
    launch("the centres' lengths", one_warp_each(end - begin), device_.compute.get(),
           inverse_norms_kernel<Pointee<decltype(row)>>, view_, begin, end);
  });
}

void CudaCentreRows::gather(const RowList& active, std::int64_t count, const Tensor& to,
                            float* inverse_norms) const {
  with_warp_centre(precision_, has_second(), [&](auto* row) {
    using Row = Pointee<decltype(row)>;
    const auto go = [&](auto* out) {
      launch("gathering centres", one_warp_each(to.shape[0]), device_.compute.get(),
             gather_kernel<Row, Pointee<decltype(out)>>, view_, active, count, to.shape[0],
             to.shape[1], out, inverse_norms);
    };
    to.dtype == DType::kFloat32 ? go(to.f32()) : go(static_cast<__nv_bfloat16*>(to.data));
  });
}

}  // namespace pfc
