#include "pfcctl/data/align/align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;
using testing::read_file;
using testing::write_file;

constexpr const char* kPoints = "\t10\t10\t20\t10\t15\t15\t11\t20\t19\t20\n";

class AlignFaces : public ::testing::Test {
 protected:
  AlignFaces() { fs::create_directories(options_.images); }
  void put(const std::string& image, unsigned seed) const {
    write_file(options_.images / image, make_jpeg(32, 32, seed));
  }
  Aligned align(const std::string& lines) const {
    write_file(options_.landmarks, lines);
    return align_faces(options_, {});
  }
  std::string error_of(const std::string& lines) const {
    return message_of<InputError>([&] { align(lines); });
  }

  TemporaryFolder folder_;
  AlignOptions options_{.landmarks = folder_ / "landmarks.txt",
                        .images = folder_ / "photographs",
                        .out = folder_ / "faces",
                        .threads = 2};
};

TEST_F(AlignFaces, WritesOneFaceForEachLine) {
  put("a.jpg", 1);
  const Aligned aligned =
      align(std::string("image\tlandmarks\n") + "a.jpg" + kPoints + "a.jpg" + kPoints);
  EXPECT_EQ(aligned.images, 2);
  EXPECT_TRUE(fs::exists(options_.out / "a.jpg"));
  EXPECT_TRUE(fs::exists(options_.out / "a-2.jpg"));
}

TEST_F(AlignFaces, KeepsFacesWhoseFileNamesCollide) {
  for (const char* name : {"a.jpg", "a.jpeg", "a-2.jpg"}) put(name, static_cast<unsigned>(name[1]));
  const Aligned aligned = align(std::string("a.jpg") + kPoints + "a.jpeg" + kPoints + "a-2.jpg" +
                                kPoints + "a.jpg" + kPoints);
  EXPECT_EQ(aligned.images, 4);
  EXPECT_EQ(aligned.existing, 0);
  for (const char* name : {"a.jpg", "a-2.jpg", "a-2-2.jpg", "a-3.jpg"}) {
    EXPECT_TRUE(fs::exists(options_.out / name)) << name;
  }
}

TEST_F(AlignFaces, ReadsPathsWithBlanksAndBackslashes) {
  fs::create_directories(options_.images / "a b");
  put("a b/c d.jpg", 1);
  EXPECT_EQ(align("a b\\c d.jpg 10 10 20 10 15 15 11 20 19 20\n").images, 1);
  EXPECT_TRUE(fs::exists(options_.out / "a b/c d.jpg"));
}

TEST_F(AlignFaces, ReadsFace2rec2ListsAndKeepsTheirLabels) {
  fs::create_directories(options_.images / "x");
  put("x/a b.jpg", 1);
  put("b.jpg", 2);
  const std::string points = kPoints;
  const std::string lines = "0\tx\\a b.jpg\t3" + points + "0\tb.jpg\t7\t1\t2\t30\t31" + points;
  EXPECT_EQ(align(lines).images, 2);
  EXPECT_EQ(align(lines).existing, 2);
  EXPECT_EQ(read_text(options_.out / "train.lst", 100), "1\tx/a b.jpg\t3\n1\tb.jpg\t7\n");
  EXPECT_THAT(error_of("0\tb.jpg\t8" + points),
              HasSubstr("train.lst: already exists and lists other faces; remove it"));
}

TEST_F(AlignFaces, RejectsAnOutputFolderThatContainsPhotographs) {
  put("a.jpg", 1);
  const std::string line = std::string("a.jpg") + kPoints;
  const fs::path photographs = options_.images;
  for (const fs::path& out : {photographs, folder_.path()}) {
    options_.out = out;
    EXPECT_THAT(error_of(line), HasSubstr("--out is the folder of the images, or contains it"));
  }
  options_.out = photographs / "faces";
  fs::create_directories(options_.out);
  put("faces/b.jpg", 2);
  EXPECT_THAT(error_of(line + "faces/b.jpg" + kPoints),
              HasSubstr("faces: --out contains faces/b.jpg, which is one of the images to align"));
  EXPECT_EQ(align(line).images, 1);
}

TEST_F(AlignFaces, RejectsAnotherImageInThePlaceOfAFace) {
  put("a.jpg", 1);
  const std::string line = std::string("a.jpg") + kPoints;
  fs::create_directories(options_.out);
  const fs::path there = options_.out / "a.jpg";
  write_file(there, make_jpeg(32, 32, 1));
  EXPECT_THAT(
      error_of(line),
      HasSubstr("a.jpg: already exists, but has 32 x 32 pixels; expected a face of 112 x 112"));
  write_file(there, "text");
  EXPECT_THAT(error_of(line), HasSubstr("but cannot be read as an image"));
  fs::remove(there);
  EXPECT_EQ(align(line).existing, 0);
  EXPECT_EQ(align(line).existing, 1);
}

TEST_F(AlignFaces, RejectsLandmarksThatCannotBelongToAFace) {
  put("a.jpg", 1);
  for (const char* points : {"1e300 0 0 0 0 0 0 0 0 0", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 0.95",
                             "1e-200 0 2e-200 0 0 0 0 0 0 0", "5 5 5 5 5 5 5 5 5 5",
                             "1 2 3 4 5 6 7 8 9", "nan 2 3 4 5 6 7 8 9 10"}) {
    EXPECT_THAT(error_of(std::string("a.jpg ") + points + "\n"),
                HasSubstr("landmarks.txt: line 1: found 'a.jpg "))
        << points;
    options_.max_damaged = 0.5;
    const Aligned aligned = align(std::string("a.jpg") + kPoints + "a.jpg " + points + "\n");
    EXPECT_EQ(aligned.images, 1);
    EXPECT_THAT(aligned.damaged, ElementsAre(HasSubstr("line 2: found 'a.jpg ")));
    options_.max_damaged = 0.001;
    fs::remove_all(options_.out);
  }
  EXPECT_THAT(error_of(std::string("../a.jpg") + kPoints), HasSubstr("without \"..\""));
}

TEST_F(AlignFaces, SkipsOnlyHeadingLines) {
  for (const char* name : {"a.jpg", "b.jpg"}) put(name, 1);
  options_.max_damaged = 0.5;
  const std::string b = std::string("b.jpg") + kPoints;
  EXPECT_THAT(align("a.jpg\n" + b).damaged, ElementsAre(HasSubstr("line 1: found 'a.jpg'")));
  EXPECT_THAT(align("a.jpg nan nan nan nan nan nan nan nan nan nan\n" + b).damaged,
              ElementsAre(HasSubstr("line 1: found 'a.jpg nan")));
  // The heading of CelebA's list.
  EXPECT_TRUE(align("2\nlefteye_x lefteye_y righteye_x righteye_y nose_x nose_y\n" + b + b)
                  .damaged.empty());
}

/// A photograph of 64 x 64 pixels with an upright face.
constexpr const char* kFace[5][2] = {
    {"22", "24"}, {"42", "24"}, {"32", "34"}, {"24", "46"}, {"40", "46"}};
std::string line_of(const std::string& image, const std::vector<int>& order, bool in_columns) {
  std::string line = image;
  for (int k = 0; k < 10; ++k) {
    const int point = in_columns ? k % 5 : k / 2;
    line += std::string(" ") +
            kFace[order[static_cast<std::size_t>(point)]][in_columns ? k / 5 : k % 2];
  }
  return line + "\n";
}

class AlignOrders : public AlignFaces {
 protected:
  AlignOrders() {
    for (const char* name : {"a.jpg", "b.jpg", "c.jpg"}) {
      write_file(options_.images / name, make_jpeg(64, 64, 3));
    }
  }
  std::vector<std::byte> face_of(const std::string& lines, Aligned& aligned) {
    fs::remove_all(options_.out);
    aligned = align(lines);
    return read_file(options_.out / "a.jpg");
  }
};

TEST_F(AlignOrders, ConvertsColumnsAndSwappedSides) {
  const std::vector<int> upright{0, 1, 2, 3, 4};
  Aligned aligned;
  const auto expected = face_of(line_of("a.jpg", upright, false), aligned);
  EXPECT_FALSE(aligned.in_columns);
  EXPECT_EQ(aligned.exchanged, 0);

  EXPECT_EQ(face_of(line_of("a.jpg", upright, true) + line_of("b.jpg", upright, true), aligned),
            expected);
  EXPECT_TRUE(aligned.in_columns);

  for (const std::vector<int>& order :
       {std::vector{1, 0, 2, 3, 4}, {1, 0, 2, 4, 3}, {0, 1, 2, 4, 3}}) {
    for (const bool in_columns : {false, true}) {
      EXPECT_EQ(
          face_of(line_of("a.jpg", order, in_columns) + line_of("b.jpg", upright, in_columns) +
                      line_of("c.jpg", upright, in_columns),
                  aligned),
          expected);
      EXPECT_EQ(aligned.exchanged, 1);
      EXPECT_EQ(aligned.in_columns, in_columns);
    }
  }
}

TEST_F(AlignOrders, KeepsRotatedFaces) {
  // Faces upside down and on a side: a rotation aligns them, and no landmarks are exchanged.
  Aligned aligned;
  face_of("a.jpg 42 40 22 40 32 30 40 18 24 18\nb.jpg 40 22 40 42 30 32 18 24 18 40\n", aligned);
  EXPECT_EQ(aligned.exchanged, 0);
  EXPECT_FALSE(aligned.in_columns);
}

TEST_F(AlignOrders, TakesTheOrderOfProfilesFromTheOtherFacesOfTheList) {
  // A face in profile: all x are close together.
  const std::string profile = "a.jpg 30 24 32 24 35 34 31 46 33 46\n";
  const std::string exchanged = "a.jpg 32 24 30 24 35 34 33 46 31 46\n";
  Aligned aligned;
  const auto expected = face_of(profile + line_of("b.jpg", {0, 1, 2, 3, 4}, false), aligned);
  EXPECT_EQ(aligned.exchanged, 0);
  EXPECT_EQ(face_of(exchanged + line_of("b.jpg", {1, 0, 2, 4, 3}, false) +
                        line_of("c.jpg", {1, 0, 2, 4, 3}, false),
                    aligned),
            expected);
  EXPECT_EQ(aligned.exchanged, 3);
}

TEST_F(AlignOrders, RejectsFiveEqualLandmarks) {
  options_.max_damaged = 0.5;
  Aligned aligned;
  face_of(line_of("a.jpg", {0, 1, 2, 3, 4}, true) + "b.jpg 30 30 30 30 30 20 20 20 20 20\n",
          aligned);
  EXPECT_TRUE(aligned.in_columns);
  EXPECT_THAT(aligned.damaged,
              ElementsAre(HasSubstr("b.jpg: all five landmarks are the same point")));
}

TEST_F(AlignOrders, RejectsLandmarksOutsideTheImage) {
  options_.max_damaged = 0.5;
  Aligned aligned;
  face_of(
      line_of("a.jpg", {0, 1, 2, 3, 4}, false) + "b.jpg 220 240 420 240 320 340 240 460 400 460\n",
      aligned);
  EXPECT_THAT(aligned.damaged,
              ElementsAre(HasSubstr("5 of 5 landmarks are outside the image (64 x 64 pixels")));
}

}  // namespace
}  // namespace pfc
