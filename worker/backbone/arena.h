// Lays named parameters out in one arena.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/backbone/backbone.h"

namespace pfc {

/// Every tensor of an arena starts on a multiple of 64 bytes: a cache line, and a whole vector of
/// AVX-512.
inline constexpr std::int64_t kArenaAlignment = 64 / sizeof(float);

/// Adds a parameter behind the ones there are; sets its offset and count. The gaps between
/// parameters stay zero for good, as updates of zeros by zero gradients are zeros. A name twice is
/// a programmer's error.
void append_parameter(Arena& arena, Parameter parameter);

/// A view of one parameter in a flat tensor of this layout (the arena itself, its gradients, ...).
/// Its shape is that in memory: [O, H, W, I] for a convolution.
Tensor parameter_view(const Parameter& parameter, const Tensor& flat);

/// Elements of a PyTorch shape.
std::int64_t elements_of(const std::vector<std::int64_t>& torch_shape);

}  // namespace pfc
