#include "worker/data/images/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "worker/data/augment/flip.h"
#include "worker/data/damaged_image.h"
#include "worker/data/images/resize.h"

namespace pfc {
namespace {

using testing::draw_waves;
using testing::encode_jpeg;
using testing::encode_png;
using testing::encode_webp;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;

class Decode : public ::testing::Test {
 protected:
  std::vector<std::uint8_t> decode(std::span<const std::byte> encoded, std::int64_t height,
                                   std::int64_t width) {
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(height * width * 3));
    decoder_.decode(encoded, {height, width}, rgb);
    return rgb;
  }
  std::string error(std::span<const std::byte> encoded) {
    return message_of<DamagedImage>([&] { decode(encoded, 20, 30); });
  }
  ImageDecoder decoder_;
};

double mean_difference(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

TEST_F(Decode, GivesBackAJpegInRgbOrder) {
  const auto drawn = draw_waves(20, 30, 1);
  EXPECT_LT(mean_difference(decode(encode_jpeg(drawn, 20, 30, 100), 20, 30), drawn), 1.0);
}

TEST_F(Decode, GivesBackAPngExactly) {
  const auto drawn = draw_waves(20, 30, 2);
  EXPECT_EQ(decode(encode_png(drawn, 20, 30), 20, 30), drawn);
}

TEST_F(Decode, TurnsGreyIntoRgb) {
  std::vector<std::uint8_t> grey(20 * 30);
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<std::uint8_t>(i % 251);
  const auto rgb = decode(encode_png(grey, 20, 30, PNG_FORMAT_GRAY), 20, 30);
  for (std::size_t i = 0; i < grey.size(); ++i) {
    ASSERT_EQ(rgb[3 * i], grey[i]);
    ASSERT_EQ(rgb[3 * i + 1], grey[i]);
    ASSERT_EQ(rgb[3 * i + 2], grey[i]);
  }
}

TEST_F(Decode, ReadsSizesWithoutDecoding) {
  EXPECT_EQ(decoder_.size(make_jpeg(20, 30, 1)), (ImageSize{20, 30}));
  EXPECT_EQ(decoder_.size(encode_png(draw_waves(8, 9, 1), 8, 9)), (ImageSize{8, 9}));
}

TEST_F(Decode, GivesBackAWebpExactly) {
  const auto drawn = draw_waves(20, 30, 2);
  EXPECT_EQ(decode(encode_webp(drawn, 20, 30), 20, 30), drawn);
  EXPECT_EQ(decoder_.size(encode_webp(drawn, 20, 30)), (ImageSize{20, 30}));
}

TEST_F(Decode, BlendsTransparentPixelsWithBlack) {
  std::vector<std::uint8_t> rgba(8 * 8 * 4);
  for (std::size_t i = 0; i < 64; ++i) {
    rgba[4 * i] = 200;
    rgba[4 * i + 1] = static_cast<std::uint8_t>(3 * i);
    rgba[4 * i + 2] = 40;
    rgba[4 * i + 3] = static_cast<std::uint8_t>(4 * i + 1);
  }
  const auto webp = decode(encode_webp(rgba, 8, 8, true), 8, 8);
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      ASSERT_NEAR(webp[3 * i + c], rgba[4 * i + c] * rgba[4 * i + 3] / 255.0, 1.5);
    }
  }
}

TEST_F(Decode, ResizesAnImageOfAnotherSize) {
  const auto drawn = draw_waves(50, 70, 4);
  std::vector<std::uint8_t> expected(20 * 30 * 3);
  resize_rgb(drawn, {50, 70}, {20, 30}, expected);
  EXPECT_EQ(decode(encode_png(drawn, 50, 70), 20, 30), expected);
  EXPECT_EQ(decode(encode_webp(drawn, 50, 70), 20, 30), expected);
  // A JPEG has been decoded at 5/8 of its size, which is at least as large.
  std::vector<std::uint8_t> near(30 * 40 * 3);
  resize_rgb(drawn, {50, 70}, {30, 40}, near);
  EXPECT_LT(mean_difference(decode(encode_jpeg(drawn, 50, 70, 100), 30, 40), near), 4.0);
}

TEST_F(Decode, AMuchLargerJpegIsDecodedAtAPartOfItsSize) {
  const auto drawn = draw_waves(400, 560, 4);
  std::vector<std::uint8_t> expected(50 * 70 * 3);
  resize_rgb(drawn, {400, 560}, {50, 70}, expected);
  const auto jpeg = encode_jpeg(drawn, 400, 560, 100);
  EXPECT_LT(mean_difference(decode(jpeg, 50, 70), expected), 1.5);  // 1/8: no resizing
  std::vector<std::uint8_t> odd(45 * 61 * 3);
  resize_rgb(drawn, {400, 560}, {45, 61}, odd);
  EXPECT_LT(mean_difference(decode(jpeg, 45, 61), odd), 3.0);
}

TEST_F(Decode, DecodesAWholeImageAtItsOwnSize) {
  const auto drawn = draw_waves(50, 70, 4);
  std::vector<std::uint8_t> rgb;
  EXPECT_EQ(decoder_.decode_whole(encode_png(drawn, 50, 70), rgb), (ImageSize{50, 70}));
  EXPECT_EQ(rgb, drawn);
}

TEST_F(Decode, RefusesHugeSizesBeforeAllocating) {
  auto png = encode_png(draw_waves(8, 9, 1), 8, 9);
  png[16] = std::byte{0x00};  // IHDR's width: 0x00ffffff; its checksum is then wrong too
  png[17] = png[18] = png[19] = std::byte{0xff};
  EXPECT_FALSE(message_of<DamagedImage>([&] { static_cast<void>(decoder_.size(png)); }).empty());
  auto jpeg = make_jpeg(20, 30, 1);
  const auto set_size = [&](int height_high, int width_high) {
    for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {  // SOF0: ff c0, length, bits, height, width
      if (jpeg[i] != std::byte{0xff} || jpeg[i + 1] != std::byte{0xc0}) continue;
      jpeg[i + 5] = static_cast<std::byte>(height_high);
      jpeg[i + 7] = static_cast<std::byte>(width_high);
    }
  };
  set_size(0xf0, 0xf0);
  EXPECT_THAT(message_of<DamagedImage>([&] { static_cast<void>(decoder_.size(jpeg)); }),
              HasSubstr("61460 x 61470"));
  EXPECT_THAT(error(jpeg), HasSubstr("sides are 1 .. 16384"));
  set_size(0x3f, 0x3f);  // each side is allowed, both are not
  EXPECT_THAT(error(jpeg), HasSubstr("pixels at most 50000000"));
}

TEST_F(Decode, SaysWhatTheBytesAre) {
  EXPECT_THAT(error({}), HasSubstr("0 bytes"));
  const std::string text = "GIF89a and more";
  EXPECT_THAT(error(std::as_bytes(std::span(text))),
              HasSubstr("15 bytes that begin with 47 49 46 38 are neither a JPEG"));
  const std::string riff = "RIFF....WAVE";
  EXPECT_THAT(error(std::as_bytes(std::span(riff))), HasSubstr("nor a WebP"));
}

TEST_F(Decode, ATruncatedImageIsDamaged) {
  const auto jpeg = make_jpeg(20, 30, 1);
  EXPECT_THAT(error(std::span(jpeg).first(jpeg.size() * 3 / 4)), HasSubstr("does not decode"));
  const auto png = encode_png(draw_waves(20, 30, 1), 20, 30);
  EXPECT_THAT(error(std::span(png).first(png.size() * 3 / 4)), HasSubstr("does not decode"));
  const auto webp = encode_webp(draw_waves(20, 30, 1), 20, 30);
  EXPECT_THAT(error(std::span(webp).first(webp.size() * 3 / 4)), HasSubstr("does not decode"));
}

TEST_F(Decode, IsUsableAfterADamagedImage) {
  const auto whole = make_jpeg(20, 30, 1);
  const auto before = decode(whole, 20, 30);
  error(std::span(whole).first(whole.size() / 2));
  EXPECT_EQ(decode(whole, 20, 30), before);
}

TEST_F(Decode, RandomDamageOnlyThrows) {
  std::mt19937 random(5);
  const auto drawn = draw_waves(20, 30, 3);
  for (const auto& whole :
       {encode_jpeg(drawn, 20, 30), encode_png(drawn, 20, 30), encode_webp(drawn, 20, 30)}) {
    for (int round = 0; round < 500; ++round) {
      auto bytes = whole;
      for (unsigned k = 0; k <= random() % 4; ++k) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      try {
        decode(bytes, 20, 30);
      } catch (const DamagedImage&) {
      }
    }
  }
}

TEST(Flip, MirrorsEveryRow) {
  for (const int width : {1, 2, 3, 8, 9}) {
    const auto before = draw_waves(4, width, 3);
    auto after = before;
    flip_horizontally(after, width);
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
        const std::size_t from = (y * static_cast<std::size_t>(width) + x) * 3;
        const std::size_t to = ((y + 1) * static_cast<std::size_t>(width) - 1 - x) * 3;
        for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(after[to + c], before[from + c]);
      }
    }
  }
}

TEST(Flip, TurnsHalfOfTheImages) {
  int turned = 0;
  for (std::int64_t position = 0; position < 10'000; ++position) turned += flips(7, 1, position);
  EXPECT_NEAR(turned, 5'000, 250);
}

}  // namespace
}  // namespace pfc
