// Random numbers in bulk: Philox 4x32-10 (kernels/math/philox.h) for one counter per vector lane,
// and normally distributed numbers.

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/box_muller.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

using UInt [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::uint32_t;
// With as many lanes as UInt (Bytes), ULong (HalfUInt) and Double (Floats).
using Bytes [[gnu::vector_size(PFC_VECTOR_BYTES / 4)]] = std::uint8_t;
using HalfUInt [[gnu::vector_size(PFC_VECTOR_BYTES / 2)]] = std::uint32_t;
using Floats [[gnu::vector_size(PFC_VECTOR_BYTES / 2)]] = float;

/// Returns the 64-bit products of the even lanes, for which GCC has no operator.
[[gnu::always_inline]] inline ULong multiply_even(ULong a, ULong b) {
#if PFC_VECTOR_BYTES == 64
  // Uses the masked variant with all lanes selected, because GCC 12 warns about the plain one.
  return reinterpret_cast<ULong>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif PFC_VECTOR_BYTES == 32
  return reinterpret_cast<ULong>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return reinterpret_cast<ULong>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
}

struct Products {
  UInt high, low;
};

[[gnu::always_inline]] inline Products multiply(UInt a, std::uint32_t factor) {
  constexpr std::uint64_t kLow = 0xffffffffu;
  const ULong wide = ULong{} + factor;
  const auto pairs = reinterpret_cast<ULong>(a);
  const ULong even = multiply_even(pairs, wide);
  const ULong odd = multiply_even(pairs >> 32, wide);
  return {.high = reinterpret_cast<UInt>((even >> 32) | (odd & ~kLow)),
          .low = reinterpret_cast<UInt>((even & kLow) | (odd << 32))};
}

struct PhiloxVectors {
  UInt x[4];
};

[[gnu::always_inline]] inline PhiloxVectors philox(std::uint64_t key, PhiloxVectors c) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Products p0 = multiply(c.x[0], 0xD2511F53u);
    const Products p1 = multiply(c.x[2], 0xCD9E8D57u);
    c = {{p1.high ^ c.x[1] ^ k0, p1.low, p0.high ^ c.x[3] ^ k1, p0.low}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Returns 0, 1, 2, ...
[[gnu::always_inline]] inline UInt lane_numbers() {
  UInt lanes{};
  for (std::int64_t lane = 0; lane < kWidth; ++lane) lanes[lane] = static_cast<std::uint32_t>(lane);
  return lanes;
}

/// Returns random_words(seed, stream, a, b) for b = block, block + 1, ..., one a and b per lane.
[[gnu::always_inline]] inline PhiloxVectors random_vectors(std::uint64_t seed, Stream stream,
                                                           UInt a, std::uint64_t block) {
  const auto first = static_cast<std::uint32_t>(block);
  const UInt low = lane_numbers() + first;
  const UInt carry = low < first ? UInt{} + 1u : UInt{};
  const UInt high = carry + static_cast<std::uint32_t>(block >> 32);
  return philox(seed, {{low, high, a, UInt{} + static_cast<std::uint32_t>(stream)}});
}

}  // namespace

void blocks_below(const RandomBlocks& r, std::uint32_t limit, std::uint8_t* hits) {
  std::int64_t i = 0;
  for (; i < r.blocks; i += kWidth) {
    const std::uint64_t block = r.first + static_cast<std::uint64_t>(i);
    UInt a = UInt{} + r.a;
    if (r.late > 0) {
      const UInt phase = random_vectors(r.seed, Stream::kSamplePhase, UInt{}, block).x[0];
      a += phase >= r.late ? UInt{} + 1u : UInt{};
    }
    const PhiloxVectors words = random_vectors(r.seed, r.stream, a, block);
    UInt bits{};
    for (std::uint32_t k = 0; k < 4; ++k) {
      bits |= (words.x[k] >> 8) < limit ? UInt{} + (1u << k) : UInt{};
    }
    const Bytes bytes = __builtin_convertvector(bits, Bytes);
    const std::int64_t lanes = r.blocks - i < kWidth ? r.blocks - i : kWidth;
    if (lanes == kWidth) {
      __builtin_memcpy(hits + i, &bytes, sizeof(bytes));
    } else {
      __builtin_memcpy(hits + i, &bytes, static_cast<std::size_t>(lanes));
    }
  }
}

void random_row(const RandomRow& r, std::uint32_t* words) {
  for (std::int64_t i = 0; i < r.blocks; i += kWidth) {
    const UInt a = lane_numbers() + (r.a + static_cast<std::uint32_t>(i));
    const PhiloxVectors of = philox(r.seed, {{UInt{} + static_cast<std::uint32_t>(r.row),
                                              UInt{} + static_cast<std::uint32_t>(r.row >> 32), a,
                                              UInt{} + static_cast<std::uint32_t>(r.stream)}});
    for (std::int64_t lane = 0; lane < kWidth; ++lane) {
      for (std::int64_t k = 0; k < 4; ++k) words[4 * (i + lane) + k] = of.x[k][lane];
    }
  }
}

bool normal_pairs(const std::uint32_t* words, std::int64_t pairs, float* numbers) {
  ULong doubtful{};
  for (std::int64_t i = 0; i < pairs; i += kWidth / 2) {
    ULong both;
    __builtin_memcpy(&both, words + 2 * i, sizeof(both));
    const NormalVectors normal = normal_vectors(both);
    doubtful |= normal.doubtful;
    const Floats a = __builtin_convertvector(normal.a, Floats);
    const Floats b = __builtin_convertvector(normal.b, Floats);
    both = __builtin_convertvector(reinterpret_cast<HalfUInt>(a), ULong) |
           __builtin_convertvector(reinterpret_cast<HalfUInt>(b), ULong) << 32;
    __builtin_memcpy(numbers + 2 * i, &both, sizeof(both));
  }
  std::uint64_t any = 0;
  for (std::int64_t lane = 0; lane < kWidth / 2; ++lane) any |= doubtful[lane];
  return any == 0;
}

}  // namespace pfc::PFC_ISA
