#include "kernels/cpu/normal_row.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/math/normal.h"

namespace pfc {

void draw_normal_row(const NormalRow& row, std::span<float> numbers) {
  constexpr std::size_t kAtOnce = 512;
  static_assert(kAtOnce % (4 * kRandomBlocks) == 0);
  const VectorKernels& kernels = best_vector_kernels();
  std::array<std::uint32_t, kAtOnce> words{};
  std::array<float, kAtOnce> normal{};
  for (std::size_t begin = 0; begin < numbers.size(); begin += kAtOnce) {
    const std::span<float> some = numbers.subspan(begin, std::min(kAtOnce, numbers.size() - begin));
    const std::size_t whole = (some.size() + 4 * kRandomBlocks - 1) / (4 * kRandomBlocks);
    const auto blocks = static_cast<std::int64_t>(whole * kRandomBlocks);
    kernels.random_row({.seed = row.seed,
                        .stream = row.stream,
                        .a = static_cast<std::uint32_t>(begin / 4),
                        .row = row.row,
                        .blocks = blocks},
                       words.data());
    if (!kernels.normal_pairs(words.data(), 2 * blocks, normal.data())) {
      for (std::size_t i = 0; i < some.size(); i += 2) {
        const NormalPair pair = box_muller(words[i], words[i + 1]);
        normal[i] = pair.a;
        normal[i + 1] = pair.b;
      }
    }
    std::transform(normal.begin(), normal.begin() + std::ssize(some), some.begin(),
                   [&](float x) { return row.deviation * x; });
  }
}

}  // namespace pfc
