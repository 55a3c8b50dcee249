#include "model/networks/arena.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/math/normal.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

// One Philox block gives four elements.
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

Tensor Arena::flat() const {
  return {static_cast<float*>(static_cast<void*>(buffer->data())), {count}};
}

std::int64_t Backbone::first_trained() const {
  const auto first = std::ranges::find(weights.parameters, false, &Parameter::frozen);
  return first == weights.parameters.end() ? weights.count : first->offset;
}

Tensor Backbone::gradients() const {
  return {static_cast<float*>(static_cast<void*>(gradient_buffer->data())),
          {weights.count - first_trained()}};
}

std::int64_t elements_of(const std::vector<std::int64_t>& torch_shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : torch_shape) n *= d;
  return n;
}

void append_parameter(Arena& arena, Parameter parameter) {
  for (const Parameter& other : arena.parameters) {
    check(other.name != parameter.name, "arena: parameter " + parameter.name + " exists already");
  }
  parameter.offset = arena.count;
  parameter.count = elements_of(parameter.torch_shape);
  arena.count += (parameter.count + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  arena.parameters.push_back(std::move(parameter));
}

Tensor parameter_view(const Parameter& p, const Tensor& flat) {
  auto* const data =
      static_cast<std::byte*>(flat.data) + static_cast<std::size_t>(p.offset) * size_of(flat.dtype);
  const std::vector<std::int64_t>& s = p.torch_shape;
  if (p.layout == ParameterLayout::kConvolution) {
    return {data, flat.dtype, {s[0], s[2], s[3], s[1]}};
  }
  return s.size() == 2 ? Tensor(data, flat.dtype, {s[0], s[1]})
                       : Tensor(data, flat.dtype, {p.count});
}

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
