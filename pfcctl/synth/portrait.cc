#include "pfcctl/synth/portrait.h"

#include <array>
#include <cmath>
#include <utility>

namespace pfc::synth {
namespace {

constexpr Vec3 kBlack{0.08f, 0.06f, 0.06f}, kWhite{0.93f, 0.92f, 0.90f};
constexpr std::array<float, 2> kSides{-1, 1};

class Portrait {
 public:
  explicit Portrait(Draws& draws);
  void add_head();
  void add_eyes();
  void add_nose();
  void add_mouth();
  void add_worn();

  std::vector<Shape> shapes;

 private:
  int add(float x, float y, float rx, float ry, Vec3 colour, const Style& style) {
    shapes.push_back({x + style.depth * yaw_, y + style.depth * pitch_, rx, ry, colour, style});
    return static_cast<int>(shapes.size()) - 1;
  }

  Draws& d_;
  Vec3 skin_, hair_;
  float cheek_, yaw_, pitch_;  ///< half width of the face; pixels of shift for each unit of depth
  int face_ = 0;
};

Portrait::Portrait(Draws& draws) : d_(draws) {
  const Vec3 tint{1, d_.trait(1, 0.03f), d_.trait(1, 0.04f)};
  skin_ = mix({0.95f, 0.80f, 0.71f}, {0.45f, 0.30f, 0.22f}, d_.share(0.4f)) * tint;
  hair_ = mix({0.10f, 0.08f, 0.08f}, {0.45f, 0.27f, 0.16f}, d_.share(0.5f));
  hair_ = mix(hair_, {0.78f, 0.66f, 0.48f}, d_.share(0.25f));
  cheek_ = d_.trait(37, 2.2f);
  yaw_ = d_.change(1.8f);
  pitch_ = d_.change(1.2f);
}

void Portrait::add_head() {
  const float volume = d_.trait(7, 2.5f) + d_.change(1.5f), top = -54, chin = d_.trait(61, 3);
  const float length = d_.identity.chance(0.5f) ? d_.identity.uniform(12, 35) : 0;
  add(0, length - 5, cheek_ + volume, 50 + volume + length, hair_ * 0.85f,
      {.soft = 2, .square = 0.3f, .surface = Surface::kHair});
  add(0, 66, 19, 30, skin_ * 0.72f, {.soft = 2});  // neck and clothes
  add(0, 98, 62, 26, d_.colour(), {});
  for (const float side : kSides) add(side * cheek_, 10, 5, 10, skin_ * 0.8f, {.depth = -1});
  face_ = add(0, (chin + top) / 2, cheek_, (chin - top) / 2, skin_,
              {.soft = 1, .square = 0.6f * d_.share(0.4f), .surface = Surface::kSkin});
  for (const float side : kSides) {
    add(side * 22, 25, 11, 9, skin_ * Vec3{1, 0.82f, 0.8f},
        {.depth = 1, .opacity = 0.5f, .soft = 6, .inside = face_});
    add(side * cheek_, 34, 9, 34, skin_ * 0.8f, {.opacity = 0.5f, .soft = 6, .inside = face_});
  }
  const float fringe_x = d_.trait(0, 9) + d_.change(2), fringe_y = d_.trait(-48, 4);
  add(fringe_x, fringe_y, 44, 20, hair_,
      {.depth = 0.5f, .soft = 2, .bend = d_.trait(14, 7), .surface = Surface::kHair});
}

void Portrait::add_eyes() {
  const float x = d_.trait(17.6f, 1), y = d_.trait(0, 0.8f), width = d_.trait(8.2f, 0.8f);
  const float slope = d_.trait(0.04f, 0.06f), blink = d_.image.chance(0.04f) ? 0.6f : 0;
  const float height = d_.trait(3.9f, 0.6f) * (0.95f - blink + d_.change(0.1f));
  const float gaze_x = d_.change(1), gaze_y = d_.change(0.4f);
  const Vec3 iris = mix({0.24f, 0.14f, 0.08f}, {0.36f, 0.52f, 0.60f}, d_.share(0.5f));
  const float brow_y = d_.trait(-10.5f, 1.3f) + d_.change(0.7f);
  const float brow_width = d_.trait(10.5f, 1.2f), brow_height = d_.trait(1.9f, 0.45f);
  const float brow_slope = d_.trait(-0.04f, 0.08f), arch = d_.trait(2, 1.2f);
  for (const float side : kSides) {
    const float middle = side * x, look = middle + gaze_x;
    add(middle, y - 2, width + 3, 8, skin_ * 0.7f,
        {.depth = 1, .opacity = 0.45f, .soft = 4, .inside = face_});
    const int white =
        add(middle, y, width, height, kWhite, {.depth = 1, .slope = -side * slope, .bend = 0.5f});
    add(look, y + gaze_y, 3.7f, 3.7f, iris, {.depth = 1, .inside = white});
    add(look, y + gaze_y, 1.7f, 1.7f, kBlack, {.depth = 1, .inside = white});
    add(look - 1.2f, y + gaze_y - 1.2f, 0.8f, 0.8f, kWhite, {.depth = 1, .inside = white});
    add(middle, y - height, width + 0.6f, 0.9f, kBlack,
        {.depth = 1, .opacity = 0.85f, .slope = -side * slope, .bend = height});
    add(side * (x + 1.5f), brow_y, brow_width, brow_height, hair_ * 0.6f,
        {.depth = 1, .opacity = 0.85f, .soft = 0.8f, .slope = side * brow_slope, .bend = arch});
  }
}

void Portrait::add_nose() {
  const float y = d_.trait(21, 1.8f), width = d_.trait(7, 0.9f), bridge = d_.trait(3.6f, 0.6f);
  add(yaw_ < 0 ? -bridge : bridge, y / 2, 2.5f, y / 2 + 4, skin_ * 0.72f,
      {.depth = 1.5f, .opacity = 0.5f, .soft = 2});
  add(0, y / 2 + 2, 2, y / 2, mix(skin_, kWhite, 0.35f),
      {.depth = 2, .opacity = 0.6f, .soft = 1.5f});
  add(0, y + 1, width, 4.5f, skin_ * 0.8f, {.depth = 2, .opacity = 0.6f, .soft = 2});
  add(0, y - 1.5f, width * 0.6f, 3.5f, skin_ * 1.05f, {.depth = 2, .opacity = 0.8f, .soft = 1.5f});
  for (const float side : kSides) {
    add(side * width * 0.55f, y + 2.4f, width * 0.28f, 1.2f, skin_ * 0.35f, {.depth = 2});
  }
}

void Portrait::add_mouth() {
  const float y = d_.trait(40.5f, 1.6f), upper = d_.trait(3, 0.7f), lower = d_.trait(4, 0.8f);
  const Vec3 tint{d_.trait(0.88f, 0.04f), d_.trait(0.58f, 0.05f), d_.trait(0.6f, 0.05f)};
  const Vec3 lips = skin_ * tint;
  const float happy = d_.image.chance(0.5f) ? 2 * d_.vary : 0, smile = happy + d_.change(0.7f);
  const float open = d_.image.chance(0.35f) ? d_.vary * d_.image.uniform(0.8f, 3.5f) : 0;
  const float width = d_.trait(14.2f, 1.5f) + smile / 2;
  const float beard = d_.identity.chance(0.25f) ? d_.identity.uniform(0.2f, 0.6f) : 0;
  const float moustache = d_.identity.chance(0.15f) ? d_.identity.uniform(0.3f, 0.8f) : 0;
  add(0, 46, 0.8f * cheek_, 24, hair_,
      {.depth = 1, .opacity = beard, .soft = 6, .surface = Surface::kHair, .inside = face_});
  add(0, y - 7, width, 3.2f, hair_, {.depth = 1.5f, .opacity = moustache, .soft = 1.2f, .bend = 2});
  add(0, y + lower + open + 4, 8, 2.2f, skin_ * 0.75f, {.depth = 1, .opacity = 0.6f, .soft = 2});
  const Style lip{.depth = 1, .opacity = 0.9f, .soft = 0.8f, .bend = -smile};
  add(0, y - upper / 2, width, upper, lips * 0.92f, lip);
  add(0, y + lower / 2 + open, 0.85f * width, lower, lips, lip);
  const int inner =
      add(0, y + open / 2, 0.9f * width, 0.7f + open, lips * 0.4f, {.depth = 1, .bend = -smile});
  if (open > 0) {
    add(0, y - open * 0.4f, 0.7f * width, open * 0.7f, kWhite,
        {.depth = 1, .bend = -smile, .inside = inner});
  }
}

/// Adds moles, glasses, and a hat, hand or scarf that covers the face from one side.
void Portrait::add_worn() {
  for (int mole = 0; mole < 3; ++mole) {
    const float x = d_.identity.uniform(-30, 30), y = d_.identity.uniform(-25, 55);
    if (d_.identity.chance(0.4f)) add(x, y, 1.1f, 1.1f, skin_ * 0.4f, {.depth = 1});
  }
  if (d_.image.chance(d_.identity.chance(0.2f) ? 0.7f : 0.06f)) {
    const Vec3 frame = d_.colour() * 0.5f;
    const float square = d_.image.uniform(0, 0.8f);
    for (const float side : kSides) {
      add(side * 17.6f, 1, 13, 9.5f, frame, {.depth = 1.5f, .square = square, .ring = 0.14f});
    }
    add(0, 0, 5, 1, frame, {.depth = 1.5f, .bend = 1});
  }
  if (d_.image.chance(0.12f * d_.vary)) {
    const float angle = d_.image.uniform(0, 6.2832f), away = d_.image.uniform(46, 60);
    const float width = d_.image.uniform(14, 34), height = d_.image.uniform(14, 34);
    const Vec3 colour = d_.colour();
    add(away * std::cos(angle), 5 + away * std::sin(angle), width, height, colour,
        {.slope = d_.image.uniform(-0.5f, 0.5f), .square = d_.image.uniform()});
  }
}

}  // namespace

std::vector<Shape> draw_portrait(Draws& draws) {
  Portrait portrait(draws);
  portrait.add_head();
  portrait.add_eyes();
  portrait.add_nose();
  portrait.add_mouth();
  portrait.add_worn();
  return std::move(portrait.shapes);
}

}  // namespace pfc::synth
