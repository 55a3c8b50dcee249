#include "pfcctl/synth/face/hair.h"

#include <algorithm>
#include <cmath>

#include "pfcctl/synth/noise.h"

namespace pfc::synth {
namespace {

constexpr float kSideburns = 12;  ///< y at which short hair ends in front of the ears
constexpr float kNape = 75;       ///< y at which it ends behind them
constexpr float kHeadRadius = 75;

}  // namespace

float HairStyle::front_edge(float x) const {
  const Hair& h = who_.hair;
  const float bare = h.line + 0.0055f * x * x + h.peak * hill(x / 16, 0, 1, 1) -
                     h.recession * hill((std::abs(x) - 38) / 24, 0, 1, 1);
  const float part = h.part_depth * hill((x - h.part) / 14, 0, 1, 1);
  const float fall = h.fringe + h.fringe_slant * x + capture_.hair_shift - part;
  const float strands =
      capture_.hair_mess * 4.5f *
      smooth_noise(x * 0.22f + 7, capture_.hair_shift * 0.3f, who_.skin.texture + 20);
  const float locks = h.fringe > 8 ? strands : 0.35f * strands;
  return bare + std::max(0.f, fall) + locks;
}

float HairStyle::beyond_edge(Place place) const {
  const Hair& h = who_.hair;
  const float side = std::abs(place.angle);
  const float x = kHeadRadius * std::sin(std::clamp(place.angle, -1.5f, 1.5f));
  const bool is_long = h.length > 40;
  const float begins = is_long ? mix(1.45f, 0.92f, h.side) : 1.22f;
  const float wave = 0.05f * (0.4f + h.curl) *
                     smooth_noise(place.y * (0.05f + 0.06f * h.curl), place.angle > 0 ? 3.f : 9.f,
                                  who_.skin.texture + 21);
  const float to_side = ramp(begins - 0.24f + wave, begins + wave, side);
  const float behind = ramp(1.5f, 1.75f, side);
  const float side_edge = is_long ? h.length : mix(kSideburns + h.length * 0.3f, kNape, behind);
  return place.y - mix(front_edge(x), side_edge, to_side);
}

float HairStyle::thickness(Place place) const {
  const Hair& h = who_.hair;
  const float inside = -beyond_edge(place);
  const float grown = ramp(-2, 26, inside);
  const float locks =
      1 + (0.12f + 0.25f * h.curl) * smooth_noise(place.angle * (5 + 6 * h.curl),
                                                  place.y * (0.03f + 0.08f * h.curl),
                                                  who_.skin.texture + 22);
  const float front = ramp(0.9f, 0.2f, std::abs(place.angle)) *
                      hill((place.angle * kHeadRadius - h.part) / 12, 0, 1, 1);
  return 2.2f + h.volume * grown * locks * (1 - 0.35f * front);
}

Paint HairStyle::paint(Place place) const {
  const Hair& h = who_.hair;
  const float across = place.angle * kHeadRadius + 5 * h.curl * std::sin(place.y * 0.25f);
  const float fine = smooth_noise(across * 0.7f, place.y * 0.05f, who_.skin.texture + 23);
  const float broad =
      smooth_noise(across * 0.2f, place.y * (0.02f + 0.05f * h.curl), who_.skin.texture + 24);
  const float depth = ramp(2, -10, beyond_edge(place));
  const float tone = 1 + h.strand * (0.28f * fine + 0.3f * broad);
  return {.albedo = h.colour * (tone * mix(0.65f, 1, depth)),
          .gloss = 0.25f + 0.35f * (fine + 1) * h.strand};
}

float HairStyle::lowest() const { return std::max(kNape, who_.hair.length) + 8; }

}  // namespace pfc::synth
