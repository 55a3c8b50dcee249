#include "pfcctl/synth/face/capture.h"

#include <iterator>

#include "pfcctl/synth/draw.h"

namespace pfc::synth {
namespace {

constexpr float kDegree = 3.14159265f / 180;

Colour draw_colour(Draw& d, float darkest = 10, float brightest = 235) {
  const float r = d.uniform(darkest, brightest);
  const float g = d.uniform(darkest, brightest);
  const float b = d.uniform(darkest, brightest);
  const float grey = (r + g + b) / 3;
  return srgb(mix(grey, r, 0.6f), mix(grey, g, 0.6f), mix(grey, b, 0.6f));
}

/// Most photographs are nearly frontal; some are not.
Pose draw_pose(Draw& d) {
  const bool candid = d.chance(0.35f);
  Pose pose{};
  pose.yaw = d.normal(0, candid ? 20 : 9) * kDegree;
  pose.pitch = d.normal(0, candid ? 9 : 5) * kDegree;
  pose.roll = d.normal(0, 3) * kDegree;
  pose.distance = d.uniform(550, 1800);
  pose.shift.x = d.normal(0, 1.1f);
  pose.shift.y = d.normal(0, 1.1f);
  pose.scale = d.normal(1, 0.022f);
  pose.turn = d.normal(0, 1.6f) * kDegree;
  return pose;
}

Expression draw_expression(Draw& d) {
  Expression e{};
  e.smile = d.chance(0.45f) ? d.uniform(0.3f, 1) : d.normal(0, 0.15f);
  const bool talking = d.chance(0.3f);
  e.mouth_open = talking ? d.uniform(2, 10) : 0;
  if (e.smile > 0.5f && d.chance(0.6f)) e.mouth_open = std::max(e.mouth_open, d.uniform(3, 7));
  e.eyes_open = d.chance(0.04f) ? 0.1f : d.normal(0.97f, 0.1f) - 0.15f * std::max(0.f, e.smile);
  e.brow_raise = d.normal(0, 1.3f);
  e.gaze.x = d.normal(0, 2);
  e.gaze.y = d.normal(0, 0.8f);
  return e;
}

Light draw_light(Draw& d) {
  const float side = d.normal(0, 45) * kDegree;
  const float height = d.normal(35, 18) * kDegree;
  Light light{};
  light.direction = normalised(
      {std::sin(side) * std::cos(height), -std::sin(height), std::cos(side) * std::cos(height)});
  const float warmth = d.normal(0, 0.1f);
  const float strength = d.uniform(0.55f, 1.25f);
  light.key = Colour{1 + warmth, 1, 1 - 1.3f * warmth} * strength;
  const float fill_warmth = d.normal(0, 0.1f);
  light.fill = Colour{1 + fill_warmth, 1, 1 - fill_warmth} * (d.uniform(0.25f, 0.65f));
  light.fill_direction.x = d.normal(0, 0.7f);
  light.fill_direction.y = d.normal(-0.5f, 0.4f);
  light.fill_direction.z = 0.5f;
  light.fill_direction = normalised(light.fill_direction);
  light.shadow = d.uniform(0.1f, 0.9f);
  return light;
}

void choose_cover(Draw& d, const Identity& who, Wear& wear) {
  if (!d.chance(0.08f)) return;
  const bool hand = d.chance(0.5f);
  wear.cover = hand ? HandShape::kHand : HandShape::kObject;
  wear.cover_colour = draw_colour(d);
  if (hand) wear.cover_colour = who.skin.base * 0.95f;
  const float around = d.uniform(0, 360) * kDegree;
  wear.cover_at = {0.5f + 0.42f * std::cos(around), 0.55f + 0.42f * std::sin(around)};
  wear.cover_size.x = d.uniform(0.1f, 0.2f);
  wear.cover_size.y = d.uniform(0.15f, 0.3f);
  wear.cover_turn = d.uniform(0, 180) * kDegree;
}

Wear draw_wear(Draw& d, const Identity& who) {
  const Colour frames[] = {srgb(20, 20, 22), srgb(70, 45, 30), srgb(120, 120, 125),
                           srgb(150, 110, 50), srgb(60, 20, 25)};
  const Colour masks[] = {srgb(150, 190, 215), srgb(235, 235, 235), srgb(30, 30, 32)};
  Wear wear;
  wear.glasses = d.chance(who.glasses_habit);
  wear.sunglasses = d.chance(0.03f);
  wear.frame = frames[d.below(std::size(frames))];
  wear.lens = draw_colour(d, 5, 60);
  wear.mask = d.chance(0.03f);
  wear.mask_colour = masks[d.below(std::size(masks))];
  wear.hat = d.chance(0.06f);
  wear.hat_colour = draw_colour(d);
  wear.hat_line = d.normal(-48, 5);
  wear.clothes = draw_colour(d);
  choose_cover(d, who, wear);
  return wear;
}

Backdrop draw_backdrop(Draw& d) {
  Backdrop back{};
  back.top = draw_colour(d);
  back.bottom = mix(back.top, draw_colour(d), d.uniform());
  back.pattern = d.chance(0.6f) ? d.uniform(0.2f, 1) : 0;
  back.seed = d.word();
  return back;
}

Camera draw_camera(Draw& d) {
  Camera c{};
  c.exposure = std::exp2(d.normal(0.1f, 0.33f));
  c.contrast = d.normal(1, 0.13f);
  c.saturation = d.normal(1, 0.18f);
  c.balance.x = d.normal(1, 0.05f);
  c.balance.y = 1;
  c.balance.z = d.normal(1, 0.06f);
  c.blur = d.chance(0.35f) ? d.uniform(0.4f, 1.5f) : 0;
  c.motion = d.chance(0.1f) ? d.uniform(2, 6) : 0;
  c.motion_turn = d.uniform(0, 180) * kDegree;
  c.coarseness = d.chance(0.2f) ? d.uniform(1.2f, 2.4f) : 1;
  c.noise = d.chance(0.5f) ? d.uniform(0.004f, 0.03f) : 0.004f;
  c.vignette = d.uniform(0, 0.3f);
  c.grey = d.chance(0.03f);
  c.jpeg_quality = static_cast<int>(d.uniform(55, 96));
  c.noise_seed = d.word();
  return c;
}

}  // namespace

Capture draw_capture(std::uint64_t seed, std::uint32_t k, std::uint32_t i, const Identity& who) {
  Draw d(seed, Purpose::kCapture, k, i);
  Capture capture{};
  capture.pose = draw_pose(d);
  capture.expression = draw_expression(d);
  capture.light = draw_light(d);
  capture.wear = draw_wear(d, who);
  capture.backdrop = draw_backdrop(d);
  capture.camera = draw_camera(d);
  capture.hair_shift = d.normal(0, 2.5f);
  capture.hair_mess = d.uniform(0.3f, 1);
  return capture;
}

}  // namespace pfc::synth
