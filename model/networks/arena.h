// The offsets and initial values of named parameters in one arena.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/networks/backbone.h"

namespace pfc {

/// Every tensor of an arena starts at a multiple of this number of elements: 64 bytes, which is a
/// cache line and a whole AVX-512 vector.
inline constexpr std::int64_t kArenaAlignment = 64 / sizeof(float);

/// Appends a parameter, and sets its offset and count. The gaps between parameters stay zero,
/// because the gradients of the gaps are zero. REQUIRES: no other parameter has its name.
void append_parameter(Arena& arena, Parameter parameter);

/// Returns a view of one parameter in a flat tensor with the arena's layout: the arena itself,
/// gradients or optimizer state. Has the shape in memory: [O, H, W, I] for a convolution.
Tensor parameter_view(const Parameter& parameter, const Tensor& flat);

/// Returns the number of elements of a tensor with PyTorch's shape.
std::int64_t elements_of(const std::vector<std::int64_t>& torch_shape);

/// The distribution of a parameter's initial values.
struct Initial {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  float value =
      0.f;  ///< the constant, the deviation of N(0, value), or the bound of U(-value, value)
};

constexpr Initial constant(float value) { return {Initial::Kind::kConstant, value}; }
constexpr Initial normal(float deviation) { return {Initial::Kind::kNormal, deviation}; }
/// The initialisation of He et al., arXiv 1502.01852, for ReLU, based on fan-out.
inline Initial kaiming(std::int64_t fan_out) {
  return normal(std::sqrt(2.f / static_cast<float>(fan_out)));
}
constexpr Initial uniform(float bound) { return {Initial::Kind::kUniform, bound}; }

/// Fills the parameter with index `parameter`: element i is a pure function of (initial, seed,
/// parameter, i).
void fill_initial(const Initial& initial, std::uint64_t seed, std::uint32_t parameter,
                  std::span<float> values);

}  // namespace pfc
