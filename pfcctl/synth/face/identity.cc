#include "pfcctl/synth/face/identity.h"

#include <iterator>

#include "pfcctl/synth/draw.h"

namespace pfc::synth {
namespace {

/// Two traits that correlate with many others, as in people. Without them a heavy jaw, thin brows
/// and a full beard would occur together too often.
struct Build {
  float masculine;  ///< -1 .. 1
  float age;        ///< 0 .. 1
};

/// Returns the colour at t, 0 to 1, on a line of stops.
template <std::size_t n>
Colour along(const Colour (&stops)[n], float t) {
  const float at = clamp01(t) * (n - 1);
  const auto i = std::min(static_cast<std::size_t>(at), n - 2);
  return mix(stops[i], stops[i + 1], at - static_cast<float>(i));
}

FaceShape draw_face(Draw& d, Build b) {
  return {.temple = d.normal(70, 3.2f),
          .cheek = d.normal(70 + 1.5f * b.masculine, 3.8f),
          .jaw = d.normal(56 + 4 * b.masculine, 5.5f),
          .chin = d.normal(30 + 3 * b.masculine, 4.5f),
          .chin_y = d.normal(112 + 3 * b.masculine, 6),
          .depth = d.normal(1, 0.05f),
          .brow_ridge = d.normal(2.5f + 1.5f * b.masculine, 1.2f),
          .cheekbone = d.normal(3, 2),
          .chin_bump = d.normal(5 + b.masculine, 2),
          .chin_cleft = d.chance(0.2f) ? d.uniform(0.5f, 2) : 0,
          .socket = d.normal(6, 2),
          .jowl = std::max(0.f, d.normal(2 * b.age, 1.5f)),
          .forehead = d.normal(0, 3)};
}

Eyes draw_eyes(Draw& d, float melanin) {
  const Colour irises[] = {srgb(120, 160, 190), srgb(110, 140, 120), srgb(130, 110, 60),
                           srgb(95, 62, 32),    srgb(58, 36, 22),    srgb(36, 24, 18)};
  return {.spacing = d.normal(31.5f, 1.8f),
          .half_width = d.normal(15.5f, 1.2f),
          .upper = d.normal(5.6f, 1.0f),
          .lower = d.normal(4.2f, 0.7f),
          .tilt = d.normal(0.07f, 0.08f),
          .peak = d.normal(0, 0.22f),
          .crease = d.normal(4.5f, 1.6f),
          .bag = clamp01(d.normal(0.35f, 0.3f)),
          .lash = clamp01(d.normal(0.55f, 0.25f)),
          .iris = along(irises, melanin + d.normal(0.25f, 0.35f)),
          .iris_radius = d.normal(6.0f, 0.35f)};
}

Brows draw_brows(Draw& d, Build b) {
  return {.y = d.normal(-18 + b.masculine, 2.2f),
          .inner = d.normal(13 - b.masculine, 2.5f),
          .outer = d.normal(50, 3),
          .thickness = std::max(1.6f, d.normal(3.6f + 1.3f * b.masculine, 1.1f)),
          .arch = d.normal(4 - 1.5f * b.masculine, 2),
          .tilt = d.normal(0.02f, 0.07f),
          .density = std::clamp(d.normal(0.72f, 0.18f), 0.3f, 0.98f)};
}

Nose draw_nose(Draw& d, Build b) {
  return {.length = d.normal(45 + 2 * b.masculine, 4),
          .bridge_height = d.normal(9, 2.5f),
          .tip_height = d.normal(21 + 2 * b.masculine, 3.5f),
          .bridge_width = d.normal(9, 1.6f),
          .tip_width = d.normal(12.5f, 2),
          .wing_width = d.normal(16 + b.masculine, 2.5f),
          .hump = std::max(0.f, d.normal(0.5f, 2)),
          .tip_droop = d.normal(0, 2),
          .nostril = d.normal(1, 0.2f)};
}

Mouth draw_mouth(Draw& d, Build b, Colour skin) {
  const Colour blood = srgb(165, 72, 74);
  return {.y = d.normal(70, 3.2f),
          .half_width = d.normal(25 + b.masculine, 3),
          .upper = std::max(2.f, d.normal(5.6f - 0.8f * b.masculine, 1.6f)),
          .lower = std::max(3.f, d.normal(8.2f - 0.8f * b.masculine, 1.9f)),
          .bow = clamp01(d.normal(0.5f, 0.3f)),
          .corner = d.normal(0, 1.4f),
          .fullness = d.normal(3.4f, 1),
          .lips = mix(skin * 0.8f, blood, std::clamp(d.normal(0.45f, 0.2f), 0.1f, 0.9f))};
}

Skin draw_skin(Draw& d, Build b, float melanin) {
  const Colour tones[] = {srgb(244, 214, 196), srgb(232, 190, 162), srgb(212, 164, 128),
                          srgb(180, 128, 92),  srgb(132, 88, 60),   srgb(84, 54, 38)};
  const float undertone = d.normal(0, 0.05f);
  const Colour tint{1 + undertone, 1 - 0.2f * undertone, 1 - 1.2f * undertone};
  return {.base = along(tones, melanin) * tint * d.normal(1, 0.05f),
          .redness = clamp01(d.normal(0.4f, 0.25f)) * (1 - 0.6f * melanin),
          .freckles = d.chance(0.3f) ? d.uniform(0.3f, 1) * (1 - melanin) : 0,
          .roughness = d.uniform(0.3f, 1),
          .wrinkles = b.age * d.uniform(0.5f, 1),
          .folds = clamp01(d.normal(0.2f + 0.6f * b.age, 0.2f)),
          .oil = d.uniform(0.3f, 1),
          .texture = d.word()};
}

Hair choose_hair(Draw& d, Build b, float melanin) {
  const Colour colours[] = {srgb(222, 186, 122), srgb(176, 128, 72), srgb(158, 82, 42),
                            srgb(112, 72, 42),   srgb(72, 46, 30),   srgb(38, 28, 24),
                            srgb(22, 19, 20)};
  Hair hair{};
  hair.colour = along(colours, d.uniform(0, 0.75f) + 0.55f * melanin);
  hair.grey = b.age > 0.55f ? clamp01(d.normal(b.age - 0.3f, 0.3f)) : 0;
  hair.colour = mix(hair.colour, srgb(176, 174, 172), hair.grey);
  hair.line = d.normal(-63, 4);
  if (b.masculine > 0) hair.line -= 14 * b.age * b.masculine * d.uniform();
  hair.peak = d.normal(0, 3);
  hair.recession = b.masculine > 0 ? std::max(0.f, d.normal(14 * b.age, 6)) : 0;
  hair.part = d.uniform(-40, 40);
  hair.part_depth = d.chance(0.5f) ? d.uniform(2, 10) : 0;
  hair.volume = std::max(3.f, d.normal(9 - 3 * b.masculine, 4));
  hair.curl = d.chance(0.3f) ? d.uniform(0.4f, 1) : d.uniform(0, 0.25f);
  hair.strand = d.uniform(0.5f, 1);
  hair.fringe = d.chance(b.masculine > 0 ? 0.25f : 0.4f) ? d.uniform(10, 36) : d.uniform(-2, 6);
  hair.fringe_slant = d.normal(0, 0.25f);
  const bool is_long = d.chance(b.masculine > 0 ? 0.12f : 0.8f);
  hair.length = is_long ? d.uniform(50, 160) : d.uniform(-5, 30);
  hair.side = is_long ? d.uniform(0.1f, 1) : 0.15f * d.uniform();
  return hair;
}

Beard draw_beard(Draw& d, Build b) {
  Beard beard{};
  if (b.masculine <= 0) return beard;
  beard.stubble = d.uniform(0, 0.8f);
  if (d.chance(0.4f)) {
    beard.moustache = d.chance(0.8f) ? d.uniform(0.4f, 1) : 0;
    beard.chin = d.chance(0.8f) ? d.uniform(0.4f, 1) : 0;
    beard.cheek = beard.chin > 0 && d.chance(0.6f) ? d.uniform(0.4f, 1) : 0;
  }
  return beard;
}

}  // namespace

Identity draw_identity(std::uint64_t seed, std::uint32_t k) {
  Draw d(seed, Purpose::kIdentity, k);
  const float sex = d.chance(0.5f) ? 1.f : -1.f;
  const Build build{.masculine = std::clamp(sex * d.normal(0.7f, 0.25f), -1.f, 1.f),
                    .age = d.uniform()};
  const float melanin = square(d.uniform());
  Identity id{};
  id.face = draw_face(d, build);
  id.eyes = draw_eyes(d, melanin);
  id.brows = draw_brows(d, build);
  id.nose = draw_nose(d, build);
  id.skin = draw_skin(d, build, melanin);
  id.mouth = draw_mouth(d, build, id.skin.base);
  id.hair = choose_hair(d, build, melanin);
  id.beard = draw_beard(d, build);
  for (Mole& mole : id.moles) {
    const bool there = d.chance(0.35f);
    mole = {.x = d.uniform(-55, 55),
            .y = d.uniform(-45, 100),
            .radius = there ? d.uniform(1.4f, 2.8f) : 0,
            .darkness = d.uniform(0.4f, 0.85f)};
  }
  id.ear_size = d.normal(1, 0.12f);
  id.ear_out = d.normal(6, 3);
  id.asymmetry = d.normal(0, 1.1f);
  id.glasses_habit = d.chance(0.2f) ? d.uniform(0.4f, 0.8f) : 0.06f;
  id.glasses_style = static_cast<int>(d.below(3));
  return id;
}

}  // namespace pfc::synth
