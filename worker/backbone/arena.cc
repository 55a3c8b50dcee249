#include "worker/backbone/arena.h"

#include <utility>

namespace pfc {

Tensor Arena::flat() const {
  return {static_cast<float*>(static_cast<void*>(buffer->data())), {count}};
}

Tensor Backbone::gradients() const {
  return {static_cast<float*>(static_cast<void*>(gradient_buffer->data())), {weights.count}};
}

std::int64_t elements_of(const std::vector<std::int64_t>& torch_shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : torch_shape) n *= d;
  return n;
}

void append_parameter(Arena& arena, Parameter parameter) {
  for (const Parameter& other : arena.parameters) {
    check(other.name != parameter.name, "arena: parameter " + parameter.name + " twice");
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

}  // namespace pfc
