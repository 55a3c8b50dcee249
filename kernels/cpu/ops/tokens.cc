// Masking of tokens.
#include <cstring>
#include <vector>

#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/math/masks/token_mask.h"

namespace pfc {
namespace {

const std::int64_t* places_of(const Tensor& places) {
  return static_cast<const std::int64_t*>(places.data);
}

/// Returns row i of [rows, row_bytes].
std::byte* row_of(const Tensor& x, std::int64_t i, std::size_t row_bytes) {
  return static_cast<std::byte*>(x.data) + static_cast<std::size_t>(i) * row_bytes;
}

}  // namespace

void CpuOps::run_choose_tokens(const Tensor& places, const TokenMask& mask) {
  const std::int64_t batch = places.shape[0], tokens = places.shape[1];
  auto* const place = static_cast<std::int64_t*>(places.data);
  std::vector<float> numbers(static_cast<std::size_t>(tokens));
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto first =
        (mask.first_sample + static_cast<std::uint64_t>(b)) * static_cast<std::uint64_t>(tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      numbers[static_cast<std::size_t>(t)] =
          token_number(mask.seed, mask.step, first + static_cast<std::uint64_t>(t));
    }
    std::int64_t kept = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      place[b * tokens + t] = is_kept(numbers.data(), tokens, t, mask.kept) ? kept++ : -1;
    }
  }
}

void CpuOps::run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) {
  const std::int64_t tokens = x.shape[1], kept = y.shape[1];
  const std::size_t row = static_cast<std::size_t>(x.shape[2]) * size_of(x.dtype);
  device_.threads.each_range(x.shape[0], 1, x.elements(), [&](const Range& samples) {
    for (std::int64_t i = samples.begin * tokens; i < samples.end * tokens; ++i) {
      const std::int64_t place = places_of(places)[i];
      if (place < 0) continue;
      std::memcpy(row_of(y, i / tokens * kept + place, row), row_of(x, i, row), row);
    }
  });
}

void CpuOps::run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                                const Tensor& y) {
  const std::int64_t tokens = y.shape[1], kept = x.shape[1];
  const std::size_t row = static_cast<std::size_t>(y.shape[2]) * size_of(y.dtype);
  device_.threads.each_range(y.shape[0], 1, y.elements(), [&](const Range& samples) {
    for (std::int64_t i = samples.begin * tokens; i < samples.end * tokens; ++i) {
      const std::int64_t place = places_of(places)[i];
      std::byte* const to = row_of(y, i, row);
      if (place >= 0) {
        std::memcpy(to, row_of(x, i / tokens * kept + place, row), row);
      } else if (token) {
        std::memcpy(to, token.data, row);
      } else {
        std::memset(to, 0, row);
      }
    }
  });
}

}  // namespace pfc
