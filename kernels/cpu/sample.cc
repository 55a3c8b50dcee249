#include "kernels/cpu/sample.h"

#include <cmath>

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {

void draw_classes(const ClassDraw& draw, std::int64_t first_block, std::span<std::uint8_t> hits) {
  // uniform01(word) is (word >> 8) / 2^24, so an element is drawn if word >> 8 < ceil(rate * 2^24).
  const auto limit = static_cast<std::uint32_t>(std::ceil(draw.rate * 0x1p24));
  // (step + phase) / hold is step / hold + 1 if phase >= hold - step % hold, otherwise step / hold.
  // The phase is that large if its word is at least `late`, which is
  // ceil((hold - step % hold) / hold * 2^32), or 0 if no phase is that large.
  const std::int64_t last = draw.step % draw.hold;
  const std::int64_t late =
      last == 0 ? 0 : (((draw.hold - last) << 32) + draw.hold - 1) / draw.hold;
  best_vector_kernels().blocks_below({.seed = draw.seed,
                                      .stream = Stream::kClassSampling,
                                      .a = static_cast<std::uint32_t>(draw.step / draw.hold),
                                      .late = static_cast<std::uint32_t>(late),
                                      .first = static_cast<std::uint64_t>(first_block),
                                      .blocks = static_cast<std::int64_t>(hits.size())},
                                     limit, hits.data());
}

}  // namespace pfc
