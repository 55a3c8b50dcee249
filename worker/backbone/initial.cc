#include "worker/backbone/initial.h"

#include <algorithm>
#include <array>

#include "kernels/math/normal.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

// One Philox block makes four elements.
std::array<float, 4> draw(Initial::Kind kind, const Philox4& words) {
  if (kind == Initial::Kind::kNormal) {
    const NormalPair front = box_muller(words.x[0], words.x[1]);
    const NormalPair back = box_muller(words.x[2], words.x[3]);
    return {front.a, front.b, back.a, back.b};
  }
  std::array<float, 4> u{};
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = 2.f * uniform01(words.x[i]) - 1.f;
  return u;
}

}  // namespace

void fill_initial(const Initial& initial, std::uint64_t seed, std::uint32_t parameter,
                  std::span<float> values) {
  if (initial.kind == Initial::Kind::kConstant) {
    std::fill(values.begin(), values.end(), initial.value);
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::array<float, 4> four =
        draw(initial.kind, random_words(seed, Stream::kBackboneInit, parameter, i / 4));
    const std::size_t n = std::min<std::size_t>(4, values.size() - i);
    for (std::size_t j = 0; j < n; ++j) values[i + j] = initial.value * four[j];
  }
}

}  // namespace pfc
