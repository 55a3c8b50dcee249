// Random words in bulk.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/philox.h"

namespace pfc::PFC_ISA {

void blocks_below(const RandomBlocks& r, std::uint32_t limit, std::uint8_t* hits) {
  std::int64_t i = 0;
  for (; i < r.blocks; i += kWidth) {
    const PhiloxVectors words =
        random_vectors(r.seed, r.stream, r.a, r.first + static_cast<std::uint64_t>(i));
    UInt bits{};
    for (std::uint32_t k = 0; k < 4; ++k) {
      bits |= (words.x[k] >> 8) < limit ? UInt{} + (1u << k) : UInt{};
    }
    const std::int64_t lanes = r.blocks - i < kWidth ? r.blocks - i : kWidth;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      hits[i + lane] = static_cast<std::uint8_t>(bits[lane]);
    }
  }
}

}  // namespace pfc::PFC_ISA
