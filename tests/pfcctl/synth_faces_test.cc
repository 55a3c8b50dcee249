#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "pfcctl/synth/draw.h"
#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/head_shape.h"
#include "pfcctl/synth/face/identity.h"
#include "pfcctl/synth/render/develop.h"
#include "pfcctl/synth/render/renderer.h"
#include "pfcctl/synth/render/view.h"

namespace pfc::synth {
namespace {

constexpr std::uint64_t kSeed = 11;

/// Returns a photograph in studio light, in which only the identity varies.
Capture plain_capture() {
  Capture c{};
  c.pose = {.yaw = 0, .pitch = 0, .roll = 0, .distance = 1000, .shift = {}, .scale = 1, .turn = 0};
  c.expression.eyes_open = 1;
  c.light = {.direction = normalised({0.3f, -0.4f, 0.85f}),
             .key = {0.9f, 0.9f, 0.9f},
             .fill = {0.4f, 0.4f, 0.4f},
             .fill_direction = {0, 0, 1},
             .shadow = 0.5f};
  c.camera.exposure = c.camera.contrast = c.camera.saturation = c.camera.coarseness = 1;
  c.camera.balance = {1, 1, 1};
  return c;
}

double mean_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

std::vector<std::uint8_t> photograph(const Identity& who, const Capture& capture) {
  return develop(render(who, capture, 112), capture.camera, 112);
}

TEST(Draw, IsAPureFunctionOfSeedPurposeIdentityAndImage) {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint32_t k, std::uint32_t i) {
    return Draw(seed, purpose, k, i).word();
  };
  EXPECT_EQ(first(1, Purpose::kIdentity, 2, 3), first(1, Purpose::kIdentity, 2, 3));
  const std::set<std::uint32_t> words{
      first(1, Purpose::kIdentity, 2, 3), first(2, Purpose::kIdentity, 2, 3),
      first(1, Purpose::kCapture, 2, 3), first(1, Purpose::kIdentity, 3, 2),
      first(1, Purpose::kIdentity, 2, 4)};
  EXPECT_EQ(words.size(), 5u);
}

TEST(Draw, NormalNumbersHaveTheirMomentsAndStayWithinTheLimit) {
  Draw d(kSeed, Purpose::kIdentity, 0);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = d.normal(10, 2);
    EXPECT_LE(std::abs(x - 10), 2 * 2.3001);
    sum += x;
    squares += (x - 10) * (x - 10);
  }
  EXPECT_NEAR(sum / kDraws, 10, 0.05);
  EXPECT_NEAR(squares / kDraws, 4 * 0.95, 0.15);  // below 4: the tails are clamped
}

TEST(Identity, IsReproducibleAndUnique) {
  std::set<float> cheeks;
  for (std::uint32_t k = 0; k < 200; ++k) {
    const Identity a = draw_identity(kSeed, k), b = draw_identity(kSeed, k);
    EXPECT_EQ(std::memcmp(&a.face, &b.face, sizeof(a.face)), 0);
    cheeks.insert(a.face.cheek);
  }
  EXPECT_EQ(cheeks.size(), 200u);
}

TEST(Align, MapsLandmarksOfAFrontalFaceNearTheTemplate) {
  for (std::uint32_t k = 0; k < 20; ++k) {
    const Identity who = draw_identity(kSeed, k);
    const Capture capture = plain_capture();
    const HeadShape shape(who, capture.expression, capture.wear);
    const View view(capture.pose);
    std::array<Vec3, 5> points = shape.landmarks();
    for (Vec3& p : points) p = view.project(p);
    const ScreenMap screen = align(points, capture.pose, 112);
    const Vec2 left = screen(points[0].x, points[0].y), right = screen(points[1].x, points[1].y);
    EXPECT_NEAR(left.x, 38.3f, 4);
    EXPECT_NEAR(left.y, 51.7f, 4);
    EXPECT_NEAR(right.x, 73.5f, 4);
    EXPECT_NEAR(right.y, 51.5f, 4);
  }
}

TEST(Align, ReturnsASimilarityForAnySizeAndRoll) {
  std::array<Vec3, 5> points{{{38.2946f, 51.6963f, 0},
                              {73.5318f, 51.5014f, 0},
                              {56.0252f, 71.7366f, 0},
                              {41.5493f, 92.3655f, 0},
                              {70.7299f, 92.2041f, 0}}};
  const Pose pose = plain_capture().pose;
  for (Vec3& p : points) p = {-2 * p.y + 7, 2 * p.x - 3, 0};  // a quarter turn, twice as large
  const ScreenMap screen = align(points, pose, 224);
  const Vec2 nose = screen(points[2].x, points[2].y);
  EXPECT_NEAR(nose.x, 2 * 56.0252f, 1e-2);
  EXPECT_NEAR(nose.y, 2 * 71.7366f, 1e-2);
  EXPECT_NEAR(screen.scale(), 1, 1e-4);
}

TEST(Render, IsAPureFunction) {
  const Identity who = draw_identity(kSeed, 3);
  const Capture capture = draw_capture(kSeed, 3, 5, who);
  EXPECT_EQ(photograph(who, capture), photograph(who, capture));
}

TEST(Render, LightsMostOfTheFaceAndIsFinite) {
  for (std::uint32_t k = 0; k < 12; ++k) {
    const Identity who = draw_identity(kSeed, k);
    const Picture picture = render(who, draw_capture(kSeed, k, k, who), 112);
    for (const Colour& c : picture.pixels) {
      ASSERT_TRUE(std::isfinite(c.x) && std::isfinite(c.y) && std::isfinite(c.z)) << k;
      ASSERT_GE(std::min({c.x, c.y, c.z}), 0) << k;
    }
  }
}

TEST(Render, DistinguishesPeopleInTheSameCapture) {
  const Capture capture = plain_capture();
  std::vector<std::vector<std::uint8_t>> faces;
  for (std::uint32_t k = 0; k < 8; ++k)
    faces.push_back(photograph(draw_identity(kSeed, k), capture));
  for (std::size_t a = 0; a < faces.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_GT(mean_difference(faces[a], faces[b]), 4);
  }
}

TEST(Render, PoseTurnsTheHead) {
  const Identity who = draw_identity(kSeed, 1);
  Capture left = plain_capture(), right = plain_capture();
  left.pose.yaw = -0.4f;
  right.pose.yaw = 0.4f;
  EXPECT_GT(mean_difference(photograph(who, left), photograph(who, right)), 4);
}

TEST(Develop, ShrinkingKeepsAnEvenGrey) {
  Picture grey(168);
  for (Colour& c : grey.pixels) c = {0.2f, 0.2f, 0.2f};
  Camera camera = plain_capture().camera;
  camera.blur = 1.3f;
  camera.motion = 4;
  camera.coarseness = 1.7f;
  const std::vector<std::uint8_t> bytes = develop(std::move(grey), camera, 112);
  ASSERT_EQ(bytes.size(), 112u * 112 * 3);
  const int expected = static_cast<int>(std::lround(255 * std::pow(0.2, 1 / 2.2)));
  for (const std::uint8_t b : bytes) ASSERT_NEAR(b, expected, 1);
}

}  // namespace
}  // namespace pfc::synth
