#include "data/images/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/crc.hpp>
#include <cmath>
#include <random>

#include "data/augment/flip.h"
#include "data/damaged_image.h"
#include "data/images/resize.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using testing::draw_waves;
using testing::encode_jpeg;
using testing::encode_png;
using testing::encode_png_as;
using testing::encode_webp;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;
using testing::PngKind;

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

TEST_F(Decode, DecodesAJpegInRgbOrder) {
  const auto drawn = draw_waves(20, 30, 1);
  EXPECT_LT(mean_difference(decode(encode_jpeg(drawn, 20, 30, 100), 20, 30), drawn), 1.0);
}

TEST_F(Decode, DecodesAPngExactly) {
  const auto drawn = draw_waves(20, 30, 2);
  EXPECT_EQ(decode(encode_png(drawn, 20, 30), 20, 30), drawn);
}

TEST_F(Decode, TakesTheCentreOfAResizedImage) {
  const auto drawn = draw_waves(20, 30, 2);
  std::vector<std::uint8_t> resized(10 * 15 * 3), expected(8 * 8 * 3), centre(8 * 8 * 3);
  resize_rgb(drawn, {20, 30}, {10, 15}, resized);
  copy_region(resized, {10, 15}, {.top = 1, .left = 4, .height = 8, .width = 8}, expected);
  decoder_.decode_centre(encode_png(drawn, 20, 30), 10, {8, 8}, centre);
  EXPECT_EQ(centre, expected) << "3.5 columns on the left are rounded to 4, as in Python";
}

TEST_F(Decode, RejectsAnImageThatIsTooLongToTakeItsCentre) {
  const auto line = encode_png(draw_waves(1, 4000, 2), 1, 4000);
  std::vector<std::uint8_t> centre(8 * 8 * 3);
  EXPECT_NO_THROW(decoder_.decode_centre(line, 8, {8, 8}, centre));
  EXPECT_THAT(message_of<DamagedImage>([&] {
                decoder_.decode_centre(line, 256, {8, 8}, centre);
              }),
              HasSubstr("an image of 1 x 4000 (height x width) would be 256 x 1024000"));
}

TEST_F(Decode, ConvertsGreyToRgb) {
  std::vector<std::uint8_t> grey(20 * 30);
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<std::uint8_t>(i % 251);
  const auto rgb = decode(encode_png(grey, 20, 30, PNG_FORMAT_GRAY), 20, 30);
  for (std::size_t i = 0; i < grey.size(); ++i) {
    ASSERT_EQ(rgb[3 * i], grey[i]);
    ASSERT_EQ(rgb[3 * i + 1], grey[i]);
    ASSERT_EQ(rgb[3 * i + 2], grey[i]);
  }
}

TEST_F(Decode, KeepsTheBrightnessOfAPngWithGamma) {
  const auto drawn = draw_waves(20, 30, 3);
  for (const double gamma : {1.0, 0.45455, 0.1}) {
    EXPECT_EQ(decode(encode_png_as({.gamma = gamma}, drawn, 20, 30), 20, 30), drawn) << gamma;
  }
}

TEST_F(Decode, UsesTheHighBytesOfAPngOf16Bits) {
  const auto drawn = draw_waves(20, 30, 4);
  std::vector<std::uint8_t> wide;
  for (const std::uint8_t value : drawn) {
    wide.push_back(value);
    wide.push_back(static_cast<std::uint8_t>(7 * value));
  }
  EXPECT_EQ(decode(encode_png_as({.bits = 16}, wide, 20, 30), 20, 30), drawn);
  EXPECT_EQ(decode(encode_png_as({.bits = 16, .gamma = 1.0}, wide, 20, 30), 20, 30), drawn);
}

TEST_F(Decode, ReadsAnInterlacedPng) {
  const auto drawn = draw_waves(20, 30, 5);
  EXPECT_EQ(decode(encode_png_as({.interlace = PNG_INTERLACE_ADAM7}, drawn, 20, 30), 20, 30),
            drawn);
}

TEST_F(Decode, BlendsTransparentPixelsWithBlackForAnyGamma) {
  const std::vector<std::uint8_t> rgba{200, 100, 50, 255, 200, 100, 50, 0, 200, 100, 50, 51};
  const std::vector<std::uint8_t> grey_alpha{90, 255, 90, 0, 90, 51};
  for (const double gamma : {0.0, 0.45455, 1.0}) {
    EXPECT_EQ(
        decode(encode_png_as({.colour_type = PNG_COLOR_TYPE_RGB_ALPHA, .gamma = gamma}, rgba, 1, 3),
               1, 3),
        (std::vector<std::uint8_t>{200, 100, 50, 0, 0, 0, 40, 20, 10}))
        << gamma;
    EXPECT_EQ(decode(encode_png_as({.colour_type = PNG_COLOR_TYPE_GRAY_ALPHA, .gamma = gamma},
                                   grey_alpha, 1, 3),
                     1, 3),
              (std::vector<std::uint8_t>{90, 90, 90, 0, 0, 0, 18, 18, 18}))
        << gamma;
    const PngKind palette{.colour_type = PNG_COLOR_TYPE_PALETTE,
                          .gamma = gamma,
                          .palette = {{200, 100, 50}, {1, 2, 3}},
                          .palette_alpha = {51}};
    EXPECT_EQ(decode(encode_png_as(palette, std::vector<std::uint8_t>{0, 1, 0}, 1, 3), 1, 3),
              (std::vector<std::uint8_t>{40, 20, 10, 1, 2, 3, 40, 20, 10}))
        << gamma;
  }
}

/// Returns Exif data with this orientation, in little-endian or big-endian byte order.
std::vector<int> exif_of(int orientation, bool big) {
  const auto two = [&](int value) {
    const std::vector<int> order{value >> 8, value & 255};
    return big ? order : std::vector<int>{order[1], order[0]};
  };
  std::vector<int> tiff = big ? std::vector<int>{'M', 'M'} : std::vector<int>{'I', 'I'};
  const auto add = [&](const std::vector<int>& bytes) {
    tiff.insert(tiff.end(), bytes.begin(), bytes.end());
  };
  const std::vector<int> none{0, 0};
  add(two(42));
  add(big ? std::vector<int>{0, 0, 0, 8} : std::vector<int>{8, 0, 0, 0});
  add(two(2));  // number of entries; the first is another tag
  add(two(0x010f)), add(two(2)),
      add(big ? std::vector<int>{0, 0, 0, 1} : std::vector<int>{1, 0, 0, 0});
  add(none), add(none);
  add(two(0x0112)), add(two(3)),
      add(big ? std::vector<int>{0, 0, 0, 1} : std::vector<int>{1, 0, 0, 0});
  add(two(orientation)), add(none);
  return tiff;
}

std::vector<std::byte> with_inserted(std::vector<std::byte> image, std::ptrdiff_t at,
                                     const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  image.insert(image.begin() + at, bytes.begin(), bytes.end());
  return image;
}

std::vector<int> appended(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<std::byte> jpeg_with_orientation(const std::vector<std::byte>& jpeg, int orientation,
                                             bool big) {
  const std::vector<int> tiff = exif_of(orientation, big);
  return with_inserted(
      jpeg, 2,
      appended({0xff, 0xe1, 0, static_cast<int>(tiff.size()) + 8, 'E', 'x', 'i', 'f', 0, 0}, tiff));
}

/// Inserts the chunk after the header or before the end. A PNG may have it at either place.
std::vector<std::byte> png_with_orientation(const std::vector<std::byte>& png, int orientation,
                                            bool big) {
  const std::vector<int> tiff = exif_of(orientation, big);
  std::vector<int> chunk = appended({'e', 'X', 'I', 'f'}, tiff);
  boost::crc_32_type sum;
  for (const int value : chunk) sum.process_byte(static_cast<unsigned char>(value));
  for (const int shift : {24, 16, 8, 0}) chunk.push_back(sum.checksum() >> shift & 255);
  const auto end = std::ssize(png) - 12;
  return with_inserted(png, big ? 33 : end,
                       appended({0, 0, 0, static_cast<int>(tiff.size())}, chunk));
}

/// Inserts the chunk, and the header of the extended format, which it needs. REQUIRES: `height` and
/// `width` are below 256.
std::vector<std::byte> webp_with_orientation(const std::vector<std::byte>& webp, int height,
                                             int width, int orientation, bool big) {
  const std::vector<int> tiff = exif_of(orientation, big);
  auto made = with_inserted(
      webp, 12, {'V', 'P', '8', 'X', 10, 0, 0, 0, 8, 0, 0, 0, width - 1, 0, 0, height - 1, 0, 0});
  made =
      with_inserted(made, std::ssize(made),
                    appended({'E', 'X', 'I', 'F', static_cast<int>(tiff.size()), 0, 0, 0}, tiff));
  for (std::size_t i = 0; i < 4; ++i) {
    made[4 + i] = static_cast<std::byte>((made.size() - 8) >> (8 * i) & 255);
  }
  return made;
}

TEST_F(Decode, RotatesAnImageByItsExifOrientation) {
  // Three by two blocks of 16 pixels, each with a single grey value.
  constexpr int kBlock = 16, kRows = 2, kColumns = 3;
  std::vector<std::uint8_t> stored;
  for (int y = 0; y < kRows * kBlock; ++y) {
    for (int x = 0; x < kColumns * kBlock; ++x) {
      stored.insert(stored.end(), 3,
                    static_cast<std::uint8_t>(40 * (y / kBlock * kColumns + x / kBlock)));
    }
  }
  const int height = kRows * kBlock, width = kColumns * kBlock;
  const auto jpeg = encode_jpeg(stored, height, width, 100);
  const auto png = encode_png(stored, height, width);
  const auto webp = encode_webp(stored, height, width);
  // For each block of the upright image, row by row, the number of the stored block: figure 5 in
  // section 8 of the TIFF 6.0 standard.
  const std::vector<std::vector<int>> upright{
      {0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0}, {3, 4, 5, 0, 1, 2},
      {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2}, {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const int rows = orientation < 5 ? kRows : kColumns;
    const int columns = orientation < 5 ? kColumns : kRows;
    const ImageSize size{rows * kBlock, columns * kBlock};
    for (const bool big : {false, true}) {
      for (const auto& photograph :
           {jpeg_with_orientation(jpeg, orientation, big),
            png_with_orientation(png, orientation, big),
            webp_with_orientation(webp, height, width, orientation, big)}) {
        EXPECT_EQ(decoder_.size(photograph), size);
        std::vector<std::uint8_t> whole;
        EXPECT_EQ(decoder_.decode_whole(photograph, whole), size);
        EXPECT_EQ(decode(photograph, size.height, size.width), whole);
        const auto& blocks = upright[static_cast<std::size_t>(orientation - 1)];
        for (int block = 0; block < rows * columns; ++block) {
          const int y = block / columns * kBlock + kBlock / 2;
          const int x = block % columns * kBlock + kBlock / 2;
          EXPECT_NEAR(whole[static_cast<std::size_t>((y * size.width + x) * 3)],
                      40 * blocks[static_cast<std::size_t>(block)], 3)
              << "orientation " << orientation << ", block " << block;
        }
      }
    }
  }
}

TEST_F(Decode, IgnoresAnInvalidOrientation) {
  const auto drawn = draw_waves(20, 30, 1);
  const auto jpeg = encode_jpeg(drawn, 20, 30, 100);
  const auto expected = decode(jpeg, 20, 30);
  for (const int orientation : {0, 9, 65535}) {
    EXPECT_EQ(decode(jpeg_with_orientation(jpeg, orientation, true), 20, 30), expected);
  }
  // The file is truncated anywhere in the Exif segment. A JPEG reader skips this segment by its
  // length.
  const auto whole = jpeg_with_orientation(jpeg, 6, true);
  for (std::size_t bytes = 0; bytes < 60; ++bytes) {
    const Orientation found = orientation_of(std::span(whole).first(bytes));
    EXPECT_TRUE(found == Orientation::kUpright || bytes >= whole.size() - jpeg.size()) << bytes;
  }
  constexpr std::size_t kEnd = 16;  // the chunk's checksum, and a PNG's last chunk
  const auto png = png_with_orientation(encode_png(drawn, 20, 30), 6, false);
  const auto webp = webp_with_orientation(encode_webp(drawn, 20, 30), 20, 30, 6, true);
  for (const auto& image : {png, webp}) {
    for (std::size_t bytes = 0; bytes <= image.size(); ++bytes) {
      const std::vector<std::byte> cut(image.begin(), image.begin() + std::ptrdiff_t(bytes));
      const Orientation found = orientation_of(cut);
      EXPECT_TRUE(found == Orientation::kUpright || bytes + kEnd >= image.size()) << bytes;
    }
    EXPECT_EQ(orientation_of(image), Orientation::kTurnRight);
  }
}

TEST_F(Decode, ReadsSizesWithoutDecoding) {
  EXPECT_EQ(decoder_.size(make_jpeg(20, 30, 1)), (ImageSize{20, 30}));
  EXPECT_EQ(decoder_.size(encode_png(draw_waves(8, 9, 1), 8, 9)), (ImageSize{8, 9}));
}

TEST_F(Decode, DecodesAWebpExactly) {
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
  // The decoder has decoded the JPEG at 5/8 of its size, the smallest that is at least 30 x
  // 40.
  std::vector<std::uint8_t> near(30 * 40 * 3);
  resize_rgb(drawn, {50, 70}, {30, 40}, near);
  EXPECT_LT(mean_difference(decode(encode_jpeg(drawn, 50, 70, 100), 30, 40), near), 4.0);
}

TEST_F(Decode, DecodesAMuchLargerJpegAtAFractionOfItsSize) {
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

TEST_F(Decode, RejectsHugeSizesBeforeAllocating) {
  auto png = encode_png(draw_waves(8, 9, 1), 8, 9);
  png[16] = std::byte{0x00};  // IHDR's width becomes 0x00ffffff; its checksum is then wrong too
  png[17] = png[18] = png[19] = std::byte{0xff};
  EXPECT_FALSE(message_of<DamagedImage>([&] { static_cast<void>(decoder_.size(png)); }).empty());
  auto jpeg = make_jpeg(20, 30, 1);
  const auto set_size = [&](int height_high, int width_high) {
    for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {  // SOF0: ff c0, length, bits, size
      if (jpeg[i] != std::byte{0xff} || jpeg[i + 1] != std::byte{0xc0}) continue;
      jpeg[i + 5] = static_cast<std::byte>(height_high);
      jpeg[i + 7] = static_cast<std::byte>(width_high);
    }
  };
  set_size(0xf0, 0xf0);
  EXPECT_THAT(message_of<DamagedImage>([&] { static_cast<void>(decoder_.size(jpeg)); }),
              HasSubstr("61460 x 61470"));
  EXPECT_THAT(error(jpeg), HasSubstr("sides of 1 .. 16384"));
  set_size(0x3f, 0x3f);  // each side is within its limit, but the number of pixels is not
  EXPECT_THAT(error(jpeg), HasSubstr("at most 50000000 pixels"));
}

TEST_F(Decode, ReportsTheFormatOfTheBytes) {
  EXPECT_THAT(error({}), HasSubstr("0 bytes"));
  const std::string text = "GIF89a and more";
  EXPECT_THAT(error(std::as_bytes(std::span(text))),
              HasSubstr("15 bytes that begin with 47 49 46 38 are neither a JPEG"));
  const std::string riff = "RIFF....WAVE";
  EXPECT_THAT(error(std::as_bytes(std::span(riff))), HasSubstr("nor a WebP"));
}

TEST_F(Decode, ReportsATruncatedImageAsDamaged) {
  const auto jpeg = make_jpeg(20, 30, 1);
  EXPECT_THAT(error(std::span(jpeg).first(jpeg.size() * 3 / 4)), HasSubstr("cannot be read"));
  const auto png = encode_png(draw_waves(20, 30, 1), 20, 30);
  EXPECT_THAT(error(std::span(png).first(png.size() * 3 / 4)), HasSubstr("cannot be read"));
  const auto webp = encode_webp(draw_waves(20, 30, 1), 20, 30);
  EXPECT_THAT(error(std::span(webp).first(webp.size() * 3 / 4)), HasSubstr("cannot be read"));
}

TEST_F(Decode, ReadsCmykJpegs) {
  // Adobe stores CMYK inverted: cyan, magenta, yellow, black, where 255 is no ink.
  const std::vector<std::array<std::uint8_t, 7>> colours{
      {200, 100, 50, 255, 200, 100, 50}, {200, 100, 50, 128, 100, 50, 25}, {255, 0, 0, 0, 0, 0, 0}};
  for (const auto& colour : colours) {
    std::vector<std::uint8_t> inks;
    for (int i = 0; i < 20 * 30; ++i) inks.insert(inks.end(), colour.begin(), colour.begin() + 4);
    const auto jpeg = encode_jpeg(inks, 20, 30, 100, TJPF_CMYK);
    for (const auto& rgb : {decode(jpeg, 20, 30), decode(jpeg, 10, 15)}) {
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(rgb[c], colour[4 + c], 2);
    }
  }
}

TEST_F(Decode, ReadsAJpegThatLacksOnlyItsEndMarker) {
  const auto drawn = draw_waves(20, 30, 1);
  const auto jpeg = encode_jpeg(drawn, 20, 30);
  const auto without_end = std::span(jpeg).first(jpeg.size() - 2);
  EXPECT_EQ(decode(without_end, 20, 30), decode(jpeg, 20, 30));
  EXPECT_THAT(error(std::span(jpeg).first(jpeg.size() - 12)), HasSubstr("cannot be read"));
  // A progressive JPEG may also lack whole scans.
  const auto progressive = encode_jpeg(drawn, 20, 30, 95, TJPF_RGB, TJFLAG_PROGRESSIVE);
  EXPECT_THAT(error(std::span(progressive).first(progressive.size() - 2)),
              HasSubstr("cannot be read"));
}

TEST_F(Decode, DecodesTheSameAfterADamagedImage) {
  const auto whole = make_jpeg(20, 30, 1);
  const auto before = decode(whole, 20, 30);
  error(std::span(whole).first(whole.size() / 2));
  EXPECT_EQ(decode(whole, 20, 30), before);
}

TEST_F(Decode, RandomDamageNeverCrashes) {
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

TEST(Flip, MirrorsHalfOfTheImages) {
  int turned = 0;
  for (std::int64_t position = 0; position < 10'000; ++position) turned += flips(7, 1, position);
  EXPECT_NEAR(turned, 5'000, 250);
}

}  // namespace
}  // namespace pfc
