// The values that parameters start from.
#pragma once

#include <cstdint>
#include <span>

namespace pfc {

/// What a parameter starts from.
struct Initial {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  float value = 0.f;  ///< the constant; the deviation of N(0, value); the bound of U(-value, value)
};

constexpr Initial constant(float value) { return {Initial::Kind::kConstant, value}; }
constexpr Initial normal(float deviation) { return {Initial::Kind::kNormal, deviation}; }
constexpr Initial uniform(float bound) { return {Initial::Kind::kUniform, bound}; }

/// Fills one parameter: element i is a pure function of (initial, seed, parameter, i).
void fill_initial(const Initial& initial, std::uint64_t seed, std::uint32_t parameter,
                  std::span<float> values);

}  // namespace pfc
