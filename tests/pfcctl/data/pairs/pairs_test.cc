#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "data/open_dataset.h"
#include "model/evaluation/verification_bin.h"
#include "pfcctl/data/pairs/draw_pairs.h"
#include "pfcctl/data/pairs/pack_pairs.h"
#include "pfcctl/data/pairs/pair_dataset.h"
#include "tests/pfcctl/data/people.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::write_file;

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// Five people with 1, 2, 3, 4 and 5 images.
const std::vector<std::int64_t> kLabels{0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4};

TEST(PairDataset, JoinsTheImagesOfOnePerson) {
  const auto image = [](int i) { return std::vector<std::byte>(3, std::byte(i)); };
  const auto dataset = dataset_of_pairs(
      {.name = "x",
       .file = "x.bin",
       .images = {image(1), image(2), image(1), image(3), image(4), image(5), image(5), image(2)},
       .same = {true, false, false, true}});
  std::vector<std::int64_t> labels;
  ImageBuffer buffer;
  for (std::int64_t i = 0; i < dataset->info().images; ++i) {
    labels.push_back(dataset->label(i, buffer));
    EXPECT_EQ(dataset->read(i, buffer).label, labels.back());
  }
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 1, 2, 0, 0, 0));
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->name(5), "x.bin: pair 3, image 2");
}

TEST(PairDataset, OpensFilesThatEndInBin) {
  const TemporaryFolder folder;
  write_verification_bin(folder / "x.bin", std::vector(2, std::vector<std::byte>(3)), {true});
  EXPECT_EQ(open_pairs_or_dataset({.rec = folder / "x.bin"})->info().images, 2);
  EXPECT_THAT(error_of([&] { (void)open_pairs_or_dataset({.rec = folder / "y"}); }),
              HasSubstr("y"));
}

TEST(DrawPairs, AlternatesBetweenPairsOfOnePersonAndOfTwo) {
  const auto pairs = draw_pairs(kLabels, 30, 1);
  ASSERT_EQ(pairs.size(), 30u);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    EXPECT_EQ(pairs[k].same, k % 2 == 0);
    EXPECT_NE(pairs[k].first, pairs[k].second);
    EXPECT_EQ(kLabels.at(static_cast<std::size_t>(pairs[k].first)) ==
                  kLabels.at(static_cast<std::size_t>(pairs[k].second)),
              pairs[k].same);
  }
}

TEST(DrawPairs, DrawsEachPairOnce) {
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  // There are 0 + 1 + 3 + 6 + 10 pairs of one person; all of them are found.
  for (const DrawnPair& pair : draw_pairs(kLabels, 40, 1)) {
    EXPECT_TRUE(seen.insert(std::minmax(pair.first, pair.second)).second);
  }
  EXPECT_THAT(error_of([] { (void)draw_pairs(kLabels, 60, 1); }),
              HasSubstr("only 40 different pairs were found, expected 60"));
}

TEST(DrawPairs, IsEqualForEqualSeedsAndDiffersForOthers) {
  const auto firsts = [](std::uint64_t seed) {
    std::vector<std::int64_t> images;
    for (const DrawnPair& pair : draw_pairs(kLabels, 20, seed)) images.push_back(pair.first);
    return images;
  };
  EXPECT_EQ(firsts(3), firsts(3));
  EXPECT_NE(firsts(3), firsts(4));
}

TEST(DrawPairs, SkipsUnreadableImages) {
  std::vector<std::int64_t> labels(100, -1);
  labels.insert(labels.end(), {0, 0, 1, 1});
  for (const DrawnPair& pair : draw_pairs(labels, 4, 1)) {
    EXPECT_GE(std::min(pair.first, pair.second), 100);
  }
}

/// Images are not drawn uniformly: a person with very many would be in nearly all pairs.
TEST(DrawPairs, DrawsPeopleUniformly) {
  std::vector<std::int64_t> labels(2000, 0);
  for (std::int64_t person = 1; person < 10; ++person) labels.insert(labels.end(), 20, person);
  std::int64_t of_first = 0;
  for (const DrawnPair& pair : draw_pairs(labels, 400, 1)) {
    if (pair.same) of_first += labels.at(static_cast<std::size_t>(pair.first)) == 0;
  }
  EXPECT_NEAR(static_cast<double>(of_first), 20, 15) << "expected a tenth of 200 pairs";
}

TEST(DrawPairs, RequiresTwoPeopleAndTwoImagesOfOnePerson) {
  EXPECT_THAT(error_of([] { (void)draw_pairs({0, 0, 0}, 2, 1); }), HasSubstr("found 1 people"));
  EXPECT_THAT(error_of([] {
                (void)draw_pairs({0, 1, 2}, 2, 1);
              }),
              HasSubstr("found 3 people, 0 of them with two images or more"));
}

class Pairs : public ::testing::Test {
 protected:
  Pairs() { testing::write_people(people_, 4, 3); }
  [[nodiscard]] fs::path list(const std::string& text) const {
    write_file(folder_ / "pairs.txt", text);
    return folder_ / "pairs.txt";
  }
  [[nodiscard]] VerificationSet pack(const std::string& text) const {
    const fs::path out = folder_ / "packed.bin";
    pack_pairs({.pairs = list(text), .images = people_, .out = out, .replace = true}, {});
    return read_verification_bin(out);
  }
  [[nodiscard]] std::string error_of_list(const std::string& text) const {
    return error_of([&] {
      pack_pairs({.pairs = list(text), .images = people_, .out = folder_ / "mine.bin"}, {});
    });
  }

  TemporaryFolder folder_;
  fs::path people_ = folder_ / "people";
};

TEST_F(Pairs, KeepTheBytesOfDrawnImages) {
  const DrawnPairs drawn =
      pack_drawn_pairs({.in = people_, .out = folder_ / "mine.bin", .pairs = 10}, {});
  EXPECT_EQ(drawn.pairs, 10);
  EXPECT_EQ(drawn.people, 4);
  const VerificationSet set = read_verification_bin(folder_ / "mine.bin");
  EXPECT_EQ(set.same.size(), 10u);
  const auto all = testing::contents(*open_dataset({.rec = people_}));
  for (std::size_t k = 0; k < set.images.size(); ++k) {
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& a) { return a.bytes == set.images[k]; }));
  }
}

TEST_F(Pairs, ReportTheFolderOfADamagedImageThatWasDrawn) {
  for (int i = 0; i < 3; ++i) write_file(people_ / "p00" / (std::to_string(i) + ".jpg"), "text");
  EXPECT_THAT(error_of([&] {
                pack_drawn_pairs({.in = people_, .out = folder_ / "mine.bin", .pairs = 20}, {});
              }),
              HasSubstr("p00/"));
  EXPECT_FALSE(fs::exists(folder_ / "mine.bin"));
}

TEST_F(Pairs, KeepTheOrderOfAListOfPaths) {
  const auto packed =
      pack_pairs({.pairs = list("p00/0.jpg\tp00/1.jpg\t1\np01/0.jpg\tp02/2.jpg\t0\r\n"),
                  .images = people_,
                  .out = folder_ / "mine.bin"},
                 {});
  EXPECT_EQ(packed.pairs, 2);
  EXPECT_EQ(packed.same, 1);
  const VerificationSet set = read_verification_bin(folder_ / "mine.bin");
  EXPECT_THAT(set.same, ElementsAre(true, false));
  ASSERT_EQ(set.images.size(), 4u);
  EXPECT_EQ(set.images[3], testing::read_file(people_ / "p02/2.jpg"));
}

TEST_F(Pairs, FindImagesOfLfwsListByNumber) {
  fs::create_directories(people_ / "Ann_B");
  fs::create_directories(people_ / "Cy");
  for (const char* name : {"Ann_B/Ann_B_0001.jpg", "Ann_B/Ann_B_0012.jpg", "Cy/Cy_0003.jpg"}) {
    fs::copy_file(people_ / "p00/0.jpg", people_ / name);
  }
  const auto packed = pack_pairs({.pairs = list("10\t300\nAnn_B\t1\t12\nAnn_B\t12\tCy\t3\n"),
                                  .images = people_,
                                  .out = folder_ / "lfw.bin"},
                                 {});
  EXPECT_EQ(packed.pairs, 2);
  EXPECT_EQ(packed.same, 1);
}

TEST_F(Pairs, FindPngAndJpegFilesByNumber) {
  fs::create_directories(people_ / "Cy");
  fs::copy_file(people_ / "p00/0.jpg", people_ / "Cy/Cy_0001.png");
  fs::copy_file(people_ / "p00/0.jpg", people_ / "Cy/Cy_0002.jpg");
  EXPECT_EQ(pack("Cy\t1\t2\nCy\t1\tCy\t1\n").same, std::vector({true, false}));
}

TEST_F(Pairs, ReadTwoLinesPerPairInCalfwsList) {
  const VerificationSet set = pack("p00/0.jpg 3\np00/1.jpg 3\np01/0.jpg 0\np02/0.jpg 0\n");
  EXPECT_THAT(set.same, ElementsAre(true, false));
  EXPECT_EQ(set.images[3], testing::read_file(people_ / "p02/0.jpg"));
  EXPECT_THAT(
      error_of_list("p00/0.jpg 1\np00/1.jpg 0\n"),
      HasSubstr("pairs.txt: line 2: found 'p00/1.jpg 0', expected the same number in both"));
  EXPECT_THAT(error_of_list("p00/0.jpg 1\np00/0.jpg p00/1.jpg 1\n"),
              HasSubstr("line 2: found 'p00/0.jpg p00/1.jpg 1', expected the second line of a"));
  EXPECT_THAT(error_of_list("p00/0.jpg 1\n"), HasSubstr("the last pair has one line"));
}

TEST_F(Pairs, ReadPathsWithBlanksAndBackslashes) {
  fs::create_directories(people_ / "p q");
  for (const char* name : {"1 a.jpg", "2.jpg"}) {
    fs::copy_file(people_ / "p00/0.jpg", people_ / "p q" / name);
  }
  EXPECT_THAT(pack("p q/1 a.jpg p q/2.jpg 1\n"
                   "p q\\1 a.jpg\tp q\\2.jpg\t0\n")
                  .same,
              ElementsAre(true, false));
  EXPECT_THAT(error_of_list("p q 1 2 3\n"), HasSubstr("names with blanks need tabs between"));
}

TEST_F(Pairs, NameTheWrongLineOfAList) {
  EXPECT_THAT(error_of_list("p00/0.jpg p00/1.jpg 1\np00/0.jpg p00/9.jpg 1\n"),
              AllOf(HasSubstr("pairs.txt: line 2: "), HasSubstr("p00/9.jpg")));
  EXPECT_THAT(error_of_list("p00/0.jpg p00/1.jpg 2\n"), HasSubstr("line 1: found 'p00/0.jpg"));
  EXPECT_THAT(error_of_list(""), HasSubstr("no pairs"));
}

TEST_F(Pairs, DoNotTreatAPairAsAHeading) {
  const std::string pair = "p00/0.jpg p00/1.jpg";
  EXPECT_THAT(error_of_list(pair + "\n" + pair + " 1\n"),
              HasSubstr("pairs.txt: line 1: found 'p00/0.jpg p00/1.jpg', expected"));
  EXPECT_THAT(error_of_list(pair + " yes\n" + pair + " 1\n"), HasSubstr("pairs.txt: line 1: "));
  for (const std::string heading : {"one other", "first second same", "10", "10 300"}) {
    const fs::path out = folder_ / (heading + ".bin");
    const auto packed = pack_pairs(
        {.pairs = list(heading + "\n" + pair + " 1\n"), .images = people_, .out = out}, {});
    EXPECT_EQ(packed.pairs, 1) << heading;
  }
}

TEST_F(Pairs, OverwriteNoImage) {
  const fs::path image = people_ / "p00/0.jpg";
  const auto bytes = testing::read_file(image);
  EXPECT_THAT(
      error_of([&] { pack_drawn_pairs({.in = people_, .out = image, .replace = true}, {}); }),
      HasSubstr("0.jpg, expected NAME.bin"));
  EXPECT_EQ(testing::read_file(image), bytes);
}

TEST_F(Pairs, DoNotReplaceAnExistingFile) {
  write_file(folder_ / "mine.bin", "mine");
  EXPECT_THAT(error_of_list("p00/0.jpg p00/1.jpg 1\n"), HasSubstr("already exists"));
  EXPECT_THAT(error_of([&] { pack_drawn_pairs({.in = people_, .out = folder_ / "mine.bin"}, {}); }),
              HasSubstr("already exists"));
}

}  // namespace
}  // namespace pfc
