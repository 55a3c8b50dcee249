#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <fstream>
#include <iterator>
#include <limits>

#include "common/error.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "pfcctl/synth/synth.h"
#include "tests/support/temporary_folder.h"

namespace pfc::synth {
namespace {

const SynthOptions kSmall{.identities = 3,
                          .images_per_identity = 2,
                          .val_identities = 4,
                          .val_pairs = 10,
                          .seed = 5,
                          .threads = 2};

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(SyntheticSet, CanBeReadAsATrainingSet) {
  const TemporaryFolder folder;
  std::vector<std::int64_t> progress;
  write_synthetic_set(kSmall, folder.path(), [&](std::int64_t done, std::int64_t all) {
    progress.push_back(done);
    EXPECT_EQ(all, 3 * 2 + 2 * 10);
  });
  EXPECT_EQ(progress.back(), 26);
  const auto set = open_dataset({.rec = folder.path()});
  EXPECT_EQ(set->info().images, 6);
  EXPECT_EQ(set->info().classes, 3);
  EXPECT_EQ(set->info().height, 112);
  ImageDecoder decoder;
  ImageBuffer storage;
  std::vector<std::uint8_t> rgb(112 * 112 * 3);
  for (std::int64_t i = 0; i < 6; ++i) {
    const Sample sample = set->read(i, storage);
    EXPECT_EQ(sample.label, i / 2);
    decoder.decode(sample.encoded, {.height = 112, .width = 112}, rgb);
  }
}

TEST(SyntheticSet, ShowsTheSamePeopleInAnotherSize) {
  const auto grey_of = [](int size) {  // averages over 4 x 4 parts of an image
    SynthOptions options = kSmall;
    options.size = size;
    const std::vector<std::byte> jpeg = draw_jpeg(options, {.identity = 1, .image = 0});
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(size * size * 3));
    ImageDecoder().decode(jpeg, {.height = size, .width = size}, rgb);
    std::vector<double> parts(16);
    for (int y = 0; y < size; ++y) {
      for (int x = 0; x < size; ++x) {
        const auto part = static_cast<std::size_t>(y * 4 / size * 4 + x * 4 / size);
        const auto pixel = static_cast<std::size_t>(3 * (y * size + x));
        for (std::size_t c = 0; c < 3; ++c) parts[part] += rgb[pixel + c] * 16.0 / 3 / size / size;
      }
    }
    return parts;
  };
  EXPECT_THAT(grey_of(48), ::testing::Pointwise(::testing::DoubleNear(6), grey_of(112)));

  const TemporaryFolder folder;
  SynthOptions options = kSmall;
  options.size = 48;
  write_synthetic_set(options, folder.path(), nullptr);
  const auto set = open_dataset({.rec = folder.path()});
  EXPECT_EQ(set->info().height, 48);
  EXPECT_EQ(set->info().width, 48);
}

TEST(SyntheticSet, DependsOnTheSeedButNotOnTheThreads) {
  const TemporaryFolder one, many, other;
  SynthOptions options = kSmall;
  options.threads = 1;
  write_synthetic_set(options, one.path(), nullptr);
  options.threads = 3;
  write_synthetic_set(options, many.path(), nullptr);
  options.seed = 6;
  write_synthetic_set(options, other.path(), nullptr);
  for (const char* name : {"train.rec", "train.idx", "property", "val.bin", "identities.txt"}) {
    EXPECT_EQ(bytes_of(one.path() / name), bytes_of(many.path() / name)) << name;
  }
  EXPECT_NE(bytes_of(one.path() / "train.rec"), bytes_of(other.path() / "train.rec"));
}

TEST(DrawPairs, BalancesEveryFoldAndAvoidsTrainingIdentities) {
  SynthOptions options = kSmall;
  options.val_pairs = 600;
  options.images_per_identity = 30;
  const std::vector<Pair> pairs = draw_pairs(options);
  ASSERT_EQ(pairs.size(), 600u);
  for (std::size_t fold = 0; fold < 10; ++fold) {
    const auto first = pairs.begin() + static_cast<std::ptrdiff_t>(60 * fold);
    EXPECT_EQ(std::count_if(first, first + 60, [](const Pair& p) { return p.same; }), 30);
  }
  for (const Pair& p : pairs) {
    EXPECT_EQ(p.a.identity == p.b.identity, p.same);
    EXPECT_FALSE(p.a == p.b);
    for (const ImageOf& image : {p.a, p.b}) {
      EXPECT_GE(image.identity, 3u);
      EXPECT_LT(image.identity, 7u);
    }
  }
}

TEST(SyntheticSet, ReplacesADataSetOnlyIfAllowed) {
  for (const char* name : {"train.rec", "train.idx", "property", "val.bin", "identities.txt"}) {
    const TemporaryFolder folder;
    std::ofstream(folder / name) << "somebody's";
    EXPECT_THAT(
        [&] { write_synthetic_set(kSmall, folder.path(), nullptr); },
        ::testing::ThrowsMessage<InputError>(::testing::AllOf(
            ::testing::HasSubstr((folder / name).string()), ::testing::HasSubstr("--force"))));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    EXPECT_EQ(bytes_of(folder / name), "somebody's");
  }
  const TemporaryFolder folder;
  for (const char* name : {"property", "identities.txt"}) {
    std::ofstream(folder / name) << "somebody's";
  }
  SynthOptions options = kSmall;
  options.replace = true;
  write_synthetic_set(options, folder.path(), nullptr);
  EXPECT_EQ(bytes_of(folder / "property"), "3,112,112\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "identities.txt"));
}

TEST(SyntheticSet, RejectsOptionsOutsideTheirRanges) {
  SynthOptions options = kSmall;
  options.identities = 0;
  EXPECT_THAT([&] { check_options(options); },
              ::testing::ThrowsMessage<InputError>("--identities 0: expected 1 to 16777216"));
  options = kSmall;
  options.val_identities = 1;
  EXPECT_THROW(check_options(options), InputError);
  for (const float difficulty : {-0.1f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    options = kSmall;
    options.difficulty = difficulty;
    EXPECT_THAT([&] { check_options(options); },
                ::testing::ThrowsMessage<InputError>(
                    fmt::format("--difficulty {}: expected 0 to 1", difficulty)));
  }
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(
      [&] { write_synthetic_set(kSmall, folder.path() / "file" / "set", nullptr); },
      ::testing::ThrowsMessage<StorageError>(::testing::HasSubstr("cannot create this folder")));
}

}  // namespace
}  // namespace pfc::synth
