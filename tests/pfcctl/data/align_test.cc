#include "pfcctl/data/align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
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

TEST_F(AlignFaces, WritesOneForEachLine) {
  put("a.jpg", 1);
  const Aligned aligned =
      align(std::string("image\tlandmarks\n") + "a.jpg" + kPoints + "a.jpg" + kPoints);
  EXPECT_EQ(aligned.images, 2);
  EXPECT_TRUE(fs::exists(options_.out / "a.jpg"));
  EXPECT_TRUE(fs::exists(options_.out / "a-2.jpg"));
}

TEST_F(AlignFaces, LosesNoneWhoseNameAnotherOneHas) {
  for (const char* name : {"a.jpg", "a.jpeg", "a-2.jpg"}) put(name, static_cast<unsigned>(name[1]));
  const Aligned aligned = align(std::string("a.jpg") + kPoints + "a.jpeg" + kPoints + "a-2.jpg" +
                                kPoints + "a.jpg" + kPoints);
  EXPECT_EQ(aligned.images, 4);
  EXPECT_EQ(aligned.existing, 0);
  for (const char* name : {"a.jpg", "a-2.jpg", "a-2-2.jpg", "a-3.jpg"}) {
    EXPECT_TRUE(fs::exists(options_.out / name)) << name;
  }
}

TEST_F(AlignFaces, DoesNotMixFacesAndPhotographs) {
  put("a.jpg", 1);
  const std::string line = std::string("a.jpg") + kPoints;
  const fs::path photographs = options_.images;
  for (const fs::path& out : {photographs, folder_.path()}) {
    options_.out = out;
    EXPECT_THAT(error_of(line), HasSubstr("--out is the folder of the images, or holds it"));
  }
  options_.out = photographs / "faces";
  fs::create_directories(options_.out);
  put("faces/b.jpg", 2);
  EXPECT_THAT(error_of(line + "faces/b.jpg" + kPoints),
              HasSubstr("faces: --out holds faces/b.jpg, which is to be aligned"));
  EXPECT_EQ(align(line).images, 1);
}

TEST_F(AlignFaces, TakesNoOtherImageForAFace) {
  put("a.jpg", 1);
  const std::string line = std::string("a.jpg") + kPoints;
  fs::create_directories(options_.out);
  const fs::path there = options_.out / "a.jpg";
  write_file(there, make_jpeg(32, 32, 1));
  EXPECT_THAT(error_of(line), HasSubstr("a.jpg: is there already, but has 32 x 32 pixels, so it is "
                                        "no face of 112 x 112"));
  write_file(there, "text");
  EXPECT_THAT(error_of(line), HasSubstr("but cannot be read as an image"));
  fs::remove(there);
  EXPECT_EQ(align(line).existing, 0);
  EXPECT_EQ(align(line).existing, 1);
}

TEST_F(AlignFaces, RefusesLandmarksThatAreNoPixelsOfAFace) {
  put("a.jpg", 1);
  for (const char* points : {"1e300 0 0 0 0 0 0 0 0 0", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 0.95",
                             "1e-200 0 2e-200 0 0 0 0 0 0 0", "5 5 5 5 5 5 5 5 5 5",
                             "1 2 3 4 5 6 7 8 9", "nan 2 3 4 5 6 7 8 9 10"}) {
    EXPECT_THAT(error_of(std::string("a.jpg ") + points + "\n"),
                HasSubstr("landmarks.txt: line 1: found 'a.jpg "))
        << points;
  }
  EXPECT_THAT(error_of(std::string("../a.jpg") + kPoints), HasSubstr("without .."));
}

}  // namespace
}  // namespace pfc
