// Masking of tokens.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/math/masks/token_mask.h"

namespace pfc {
namespace {

/// A block chooses the tokens of one sample. numbers, before: [batch, tokens] scratch.
__global__ void choose_tokens_kernel(std::int64_t tokens, TokenMask mask, float* numbers,
                                     std::int64_t* before, std::int64_t* places) {
  const std::int64_t first = std::int64_t{blockIdx.x} * tokens;
  numbers += first;
  before += first;
  places += first;
  const std::uint64_t global =
      (mask.first_sample + blockIdx.x) * static_cast<std::uint64_t>(tokens);
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x) {
    numbers[t] = token_number(mask.seed, mask.step, global + static_cast<std::uint64_t>(t));
  }
  __syncthreads();
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x) {
    places[t] = is_kept(numbers, tokens, t, mask.kept) ? 1 : 0;
  }
  __syncthreads();
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x) {
    before[t] = 0;
    for (std::int64_t i = 0; i < t; ++i) before[t] += places[i];
  }
  __syncthreads();
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x) {
    places[t] = places[t] != 0 ? before[t] : -1;
  }
}

/// A block copies one token of x.
template <typename T>
__global__ void keep_tokens_kernel(std::int64_t tokens, std::int64_t kept, std::int64_t n,
                                   const std::int64_t* places, const T* x, T* y) {
  const std::int64_t token = blockIdx.x, place = places[token];
  if (place < 0) return;
  const std::int64_t to = (token / tokens * kept + place) * n;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) y[to + i] = x[token * n + i];
}

/// A block writes one token of y. fill: nullptr for zeros.
template <typename T>
__global__ void restore_tokens_kernel(std::int64_t tokens, std::int64_t kept, std::int64_t n,
                                      const std::int64_t* places, const T* x, const T* fill, T* y) {
  const std::int64_t token = blockIdx.x, place = places[token];
  const T* const from = place < 0 ? fill : x + (token / tokens * kept + place) * n;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    y[token * n + i] = from == nullptr ? from_float<T>(0.f) : from[i];
  }
}

const std::int64_t* numbers_of(const Tensor& places) {
  return static_cast<const std::int64_t*>(places.data);
}

LaunchShape one_block_each(const Tensor& places) {
  constexpr unsigned kThreadsOfToken = 128;
  return {.blocks = dim3(static_cast<unsigned>(places.elements())),
          .threads = dim3(kThreadsOfToken)};
}

}  // namespace

void CudaOps::run_choose_tokens(const Tensor& places, const TokenMask& mask) {
  const auto count = static_cast<std::size_t>(places.elements());
  check(count * (sizeof(std::int64_t) + sizeof(float)) <= device_.scratch.bytes(),
        "choose_tokens: too little scratch");
  auto* const before = reinterpret_cast<std::int64_t*>(device_.scratch.data());
  launch("choose_tokens",
         {.blocks = dim3(static_cast<unsigned>(places.shape[0])), .threads = dim3(kThreads)},
         device_.compute.get(), choose_tokens_kernel, places.shape[1], mask,
         reinterpret_cast<float*>(before + count), before, static_cast<std::int64_t*>(places.data));
}

void CudaOps::run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) {
  with_element_type(x.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("keep_tokens", one_block_each(places), device_.compute.get(),
           keep_tokens_kernel<Element>, x.shape[1], y.shape[1], x.shape[2], numbers_of(places),
           static_cast<const Element*>(x.data), static_cast<Element*>(y.data));
  });
}

void CudaOps::run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                                 const Tensor& y) {
  with_element_type(y.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("restore_tokens", one_block_each(places), device_.compute.get(),
           restore_tokens_kernel<Element>, y.shape[1], x.shape[1], y.shape[2], numbers_of(places),
           static_cast<const Element*>(x.data), static_cast<const Element*>(token.data),
           static_cast<Element*>(y.data));
  });
}

}  // namespace pfc
