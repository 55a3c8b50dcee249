// Tests training sets of image files.
#include "data/layouts/file_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/damaged_image.h"
#include "data/layouts/labels.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::draw_waves;
using ::testing::ElementsAre;
using testing::encode_png;
using testing::encode_webp;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::message_of;

TEST(Labels, AreIntegersEvenIfTheyAreWrittenAsFloats) {
  EXPECT_EQ(parse_label("0"), 0);
  EXPECT_EQ(parse_label("17.000000"), 17);
  EXPECT_EQ(parse_label("16777217"), 16777217) << "not representable in float32";
  for (const char* wrong : {"", "-1", "1.5", "x", "1 ", "1e3", "nan", "1099511627776", "0x1"}) {
    EXPECT_EQ(parse_label(wrong), -1) << wrong;
  }
}

class ImageFiles : public testing::DataFolder {
 protected:
  [[nodiscard]] std::vector<std::string> images_of(const Dataset& dataset) const {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      all.push_back(std::filesystem::path(dataset.name(i)).lexically_relative(folder_.path()));
    }
    return all;
  }
};

TEST_F(ImageFiles, ReadAFolderPerPersonInTheOrderOfNames) {
  write("grace/2.png", encode_png(draw_waves(16, 24, 2), 16, 24));
  write("ada/b/deep.JPG", make_jpeg(16, 24, 1));
  write("ada/a.webp", encode_webp(draw_waves(16, 24, 3), 16, 24));
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_THAT(images_of(*dataset), ElementsAre("ada/a.webp", "ada/b/deep.JPG", "grace/2.png"));
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 0, 1));
  EXPECT_EQ(dataset->info().classes, 2);
  EXPECT_EQ(dataset->info().height, 16);
  EXPECT_EQ(dataset->info().width, 24);
  EXPECT_EQ(dataset->identity(1), "grace");
  EXPECT_EQ(image_of(*dataset, 1), make_jpeg(16, 24, 1));
}

TEST_F(ImageFiles, SkipAndCountOtherFiles) {
  write("ada/1.jpg", make_jpeg(16, 16, 1));
  write("ada/notes.txt", "x");
  write("ada/.hidden.jpg", "x");
  write("list.txt", "x");
  std::filesystem::create_directories(folder_ / "empty");
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_EQ(dataset->info().images, 1);
  EXPECT_EQ(dataset->info().classes, 1);
  EXPECT_THAT(dataset->info().warnings,
              ElementsAre(HasSubstr("left out 3 files whose names are not those of images")));
  for (const char* name : {"ada/notes.txt", "ada/.hidden.jpg", "list.txt"}) {
    EXPECT_THAT(dataset->info().warnings, ElementsAre(HasSubstr(name)));
  }
  EXPECT_THAT(dataset->info().warnings, ElementsAre(HasSubstr("and 1 folder without images")));
}

TEST_F(ImageFiles, NameTenOfTheFilesThatAreLeftOut) {
  write("ada/1.jpg", make_jpeg(16, 16, 1));
  for (int i = 0; i < 12; ++i) write("ada/notes-" + std::to_string(i) + ".txt", "x");
  const std::vector<std::string> warnings = open_dataset({.rec = folder_.path()})->info().warnings;
  ASSERT_THAT(warnings, ElementsAre(HasSubstr("left out 12 files")));
  int named = 0;
  for (std::size_t at = 0; (at = warnings[0].find("ada/notes-", at)) != std::string::npos; ++at) {
    ++named;
  }
  EXPECT_EQ(named, 10) << warnings[0];
}

TEST_F(ImageFiles, StopAtACircularLink) {
  write("ada/1.jpg", make_jpeg(16, 16, 1));
  write("ada/z/2.jpg", make_jpeg(16, 16, 1));
  write("grace/3.jpg", make_jpeg(16, 16, 1));
  std::filesystem::create_directory_symlink("..", folder_ / "ada" / "round");
  std::filesystem::create_directory_symlink(".", folder_ / "ada" / "itself");
  std::filesystem::create_directory_symlink("z", folder_ / "ada" / "a");
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_THAT(images_of(*dataset), ElementsAre("ada/1.jpg", "ada/z/2.jpg", "grace/3.jpg"));
}

/// There are 9! different paths through these links.
TEST_F(ImageFiles, VisitFoldersThatLinkToEachOtherOnce) {
  for (int i = 0; i < 9; ++i) {
    const std::string folder = "ada/" + std::to_string(i);
    write(folder + "/1.jpg", make_jpeg(16, 16, 1));
    for (int other = 0; other < 9; ++other) {
      std::filesystem::create_directory_symlink("../" + std::to_string(other),
                                                folder_ / folder / ("to" + std::to_string(other)));
    }
  }
  EXPECT_EQ(open_dataset({.rec = folder_.path()})->info().images, 9);
}

/// A data set may consist of links to some folders of another data set.
TEST_F(ImageFiles, FollowLinksToOtherFolders) {
  write("all/x/1.jpg", make_jpeg(16, 16, 1));
  std::filesystem::create_directories(folder_ / "some" / "b");
  std::filesystem::create_directory_symlink("../all/x", folder_ / "some" / "a");
  std::filesystem::create_directory_symlink("../../all/x", folder_ / "some" / "b" / "more");
  const auto dataset = open_dataset({.rec = folder_ / "some"});
  EXPECT_THAT(images_of(*dataset), ElementsAre("some/a/1.jpg", "some/b/more/1.jpg"));
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1));
}

TEST_F(ImageFiles, ReportMissingImagesAsDamaged) {
  for (const char* name : {"1", "2", "3"}) {
    write(std::string("ada/") + name + ".jpg", make_jpeg(16, 16, 1));
  }
  const auto dataset = open_dataset({.rec = folder_.path()});
  std::filesystem::remove(folder_ / "ada" / "2.jpg");
  std::filesystem::remove(folder_ / "ada" / "3.jpg");
  ASSERT_EQ(mkfifo((folder_ / "ada" / "3.jpg").c_str(), 0600), 0);
  EXPECT_NO_THROW(image_of(*dataset, 0));
  EXPECT_THAT(message_of<DamagedImage>([&] { image_of(*dataset, 1); }), HasSubstr("2.jpg"));
  EXPECT_THAT(message_of<DamagedImage>([&] { image_of(*dataset, 2); }), HasSubstr("FIFO"));
}

TEST_F(ImageFiles, ReadAListOfIm2rec) {
  write("x/1.jpg", make_jpeg(16, 16, 1));
  write("x/2.jpg", make_jpeg(16, 16, 2));
  write("train.lst", "7\t3.000000\tx/2.jpg\r\n\n2\t0\tx/1.jpg");
  const auto dataset = open_dataset({.rec = folder_.path()});
  EXPECT_THAT(images_of(*dataset), ElementsAre("x/2.jpg", "x/1.jpg"));
  EXPECT_THAT(labels_of(*dataset), ElementsAre(3, 0));
  EXPECT_EQ(dataset->info().classes, 4);
  EXPECT_THAT(dataset->info().warnings, Contains(HasSubstr("4 classes, but there are only 2")));
}

TEST_F(ImageFiles, RejectAListWithSeveralColumnsOfLabels) {
  write("1.jpg", make_jpeg(16, 16, 1));
  for (const char* line : {"1\t0\t1\t0\t1.jpg", "1\t2\t5\t0\t0.1\t0.2\t0.3\t0.4\t1.jpg"}) {
    write("a.lst", std::string("0\t0\t1.jpg\n") + line + "\n");
    EXPECT_THAT(error({.rec = folder_ / "a.lst"}),
                AllOf(HasSubstr("a.lst: line 2: found '"), HasSubstr("several label columns")));
  }
}

TEST_F(ImageFiles, ReadAListOfFace2rec2) {
  write("x/1.jpg", make_jpeg(16, 16, 1));
  write("x/2.jpg", make_jpeg(16, 16, 2));
  write("a.lst", "1\tx/2.jpg\t7\n1\tx/1.jpg\t0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\n");
  const auto dataset = open_dataset({.rec = folder_ / "a.lst"});
  EXPECT_THAT(images_of(*dataset), ElementsAre("x/2.jpg", "x/1.jpg"));
  EXPECT_THAT(labels_of(*dataset), ElementsAre(7, 0));
  write("a.lst", "1\tx/2.jpg\t7\n0\tx/1.jpg\t0\n");
  EXPECT_THAT(error({.rec = folder_ / "a.lst"}),
              AllOf(HasSubstr("a.lst: line 2: found '"), HasSubstr("pfcctl data align")));
}

TEST_F(ImageFiles, ReadsAListOfPlsc) {
  write("set/images/1.jpg", make_jpeg(16, 16, 1));
  write("set/images/a b.jpg", make_jpeg(16, 16, 2));
  for (const char* separator : {"\t", " "}) {
    write("set/label.txt",
          std::string("images/1.jpg") + separator + "0\nimages/a b.jpg" + separator + "1\n");
    for (const char* rec : {"set", "set/label.txt"}) {
      const auto dataset = open_dataset({.rec = folder_ / rec});
      EXPECT_THAT(images_of(*dataset), ElementsAre("set/images/1.jpg", "set/images/a b.jpg"));
      EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1));
    }
  }
}

TEST_F(ImageFiles, DoesNotTreatAnImageAsAHeading) {
  write("a/1.jpg", make_jpeg(16, 16, 1));
  write("b c.jpg", make_jpeg(16, 16, 2));
  for (const char* list :
       {"a/1.jpg\nb c.jpg 0\n", "a/1.jpg x\nb c.jpg 0\n", "b c.jpg\na/1.jpg 0\n"}) {
    write("label.txt", list);
    EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_ / "label.txt"}); }),
                HasSubstr("label.txt: line 1: found "))
        << list;
  }
  write("label.txt", "a/1.jpg  0 \nb c.jpg 1\n");
  EXPECT_THAT(images_of(*open_dataset({.rec = folder_ / "label.txt"})),
              ElementsAre("a/1.jpg", "b c.jpg"));
}

TEST_F(ImageFiles, ReadsWindowsPathsInLists) {
  write("x/y/1.jpg", make_jpeg(16, 16, 1));
  write("a.lst", "0\t0\tx\\y\\1.jpg\n");
  write("b.tsv", "x\\y\\1.jpg\t0\n");
  for (const char* list : {"a.lst", "b.tsv"}) {
    EXPECT_THAT(images_of(*open_dataset({.rec = folder_ / list})), ElementsAre("x/y/1.jpg"));
  }
}

TEST_F(ImageFiles, AcceptListsWithLineEndsOfAnySystem) {
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) write(name, make_jpeg(16, 16, 1));
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    write("a.lst", "0\t0\t1.jpg" + end + "1\t1\t2.jpg" + end + "2\t2\t3.jpg" + end);
    EXPECT_THAT(images_of(*open_dataset({.rec = folder_ / "a.lst"})),
                ElementsAre("1.jpg", "2.jpg", "3.jpg"));
  }
}

TEST_F(ImageFiles, ReadUtf16Lists) {
  const std::vector<std::string> names = {"a\u00e9.jpg", "\u5f20.jpg", "\U0001f600.jpg"};
  for (const std::string& name : names) write(name, make_jpeg(16, 16, 1));
  std::u16string lines = u"\ufeff0\t0\ta\u00e9.jpg\r\n1\t1\t\u5f20.jpg\r\n2\t2\t\U0001f600.jpg";
  for (const bool swapped : {false, true}) {
    if (swapped) {
      for (char16_t& unit : lines) unit = static_cast<char16_t>(unit << 8 | unit >> 8);
    }
    write("a.lst", std::as_bytes(std::span(lines)));
    EXPECT_EQ(images_of(*open_dataset({.rec = folder_ / "a.lst"})), names);
  }
}

/// The list is longer than 1 MiB, the size of the pieces that are converted, and the first piece
/// ends between the two halves of a surrogate pair.
TEST_F(ImageFiles, ReadLongUtf16Lists) {
  const std::string name = "\U0001f600.jpg";
  write(name, make_jpeg(16, 16, 1));
  std::u16string lines = u"\ufeff";
  const int images = 70'000;
  for (int i = 0; i < images; ++i) lines += u"0\t0\t\U0001f600.jpg\n";
  write("a.lst", std::as_bytes(std::span(lines)));
  const std::vector<std::string> read = images_of(*open_dataset({.rec = folder_ / "a.lst"}));
  EXPECT_EQ(read.size(), images);
  EXPECT_EQ(std::ranges::count(read, name), images);
  write("\ufffd.jpg", make_jpeg(16, 16, 1));
  lines = u"\ufeff0\t0\t" + std::u16string(1, u'\xd83d') + u".jpg\n";
  write("a.lst", std::as_bytes(std::span(lines)));
  EXPECT_THAT(images_of(*open_dataset({.rec = folder_ / "a.lst"})), ElementsAre("\ufffd.jpg"));
}

/// A first line without a number is a heading. But an image with an invalid label is not a heading.
TEST_F(ImageFiles, RejectATsvWithAnInvalidLabelInTheFirstLine) {
  write("1.jpg", make_jpeg(16, 16, 1));
  for (const char* label : {"-1", "1.5", "nan", "1e40", "1099511627776"}) {
    write("list.tsv", std::string("1.jpg\t") + label + "\n1.jpg\t0\n");
    EXPECT_THAT(error({.rec = folder_ / "list.tsv"}), HasSubstr("list.tsv: line 1: found '"))
        << label;
  }
}

TEST_F(ImageFiles, AcceptAListWithAByteOrderMark) {
  write("1.jpg", make_jpeg(16, 16, 1));
  write("list.tsv",
        "\xef\xbb\xbf"
        "1.jpg\t0\r\n");
  write("identities.txt",
        "\xef\xbb\xbf"
        "ada\r\n");
  const auto dataset = open_dataset({.rec = folder_ / "list.tsv"});
  EXPECT_THAT(images_of(*dataset), ElementsAre("1.jpg"));
  EXPECT_EQ(dataset->identity(0), "ada");
}

TEST_F(ImageFiles, UseTheSizeOfTheFirstReadableImage) {
  write("people/ada/1.jpg", std::string("no image"));
  write("people/ada/2.jpg", make_jpeg(24, 16, 1));
  EXPECT_EQ(open_dataset({.rec = folder_ / "people"})->info().height, 24);
  write("people/ada/2.jpg", std::string(""));
  EXPECT_THAT(error({.rec = folder_ / "people"}),
              AllOf(HasSubstr("ada/1.jpg: 8 bytes that begin with"),
                    HasSubstr("none of the first images can be read")));
}

TEST_F(ImageFiles, RejectAFolderOneLevelTooHighAndNameTheRightFolder) {
  for (int person = 0; person < 12; ++person) {
    write("faces/train/p" + std::to_string(person) + "/1.jpg", make_jpeg(16, 16, 1));
  }
  write("faces/val/p0/1.jpg", make_jpeg(16, 16, 1));
  EXPECT_THAT(
      error({.rec = folder_ / "faces"}),
      AllOf(HasSubstr("contain only folders (train: 12, val: 1) and would count as 2 people"),
            HasSubstr("did you mean " + (folder_ / "faces/train").string() + "?")));
  EXPECT_EQ(open_dataset({.rec = folder_ / "faces/train"})->info().classes, 12);
  // This folder is a person, so the other folders are people too.
  write("faces/ada/1.jpg", make_jpeg(16, 16, 1));
  EXPECT_EQ(open_dataset({.rec = folder_ / "faces"})->info().classes, 3);
}

TEST_F(ImageFiles, IgnoresSynologyAndMacOsFolders) {
  for (const char* name :
       {"ada/1.jpg", "bob/1.jpg", "@eaDir/x/1.jpg", "ada/@eaDir/2.jpg", "__MACOSX/ada/1.jpg"}) {
    write(std::string("people/") + name, make_jpeg(16, 16, 1));
  }
  const auto dataset = open_dataset({.rec = folder_ / "people"});
  EXPECT_EQ(dataset->info().classes, 2);
  EXPECT_EQ(dataset->info().images, 2);
}

TEST_F(ImageFiles, DoNotTreatAFolderAsAShard) {
  write("people/ada.tar/1.jpg", make_jpeg(16, 16, 1));
  EXPECT_EQ(open_dataset({.rec = folder_ / "people"})->identity(0), "ada.tar");
}

TEST_F(ImageFiles, ReadATsvWithAHeadingAndAFolderOfImages) {
  write("images/1.jpg", make_jpeg(16, 16, 1));
  write("list.tsv", "path\tlabel\n1.jpg\t16777217\n");
  const auto dataset = open_dataset({.rec = folder_ / "list.tsv", .num_classes = 16777218});
  EXPECT_THAT(images_of(*dataset), ElementsAre("images/1.jpg"));
  EXPECT_THAT(labels_of(*dataset), ElementsAre(16777217));
}

TEST_F(ImageFiles, ReadSeveralLabelsOfAnImageInATsv) {
  write("1.jpg", make_jpeg(16, 16, 1));
  write("list.tsv", "path\tlabels\n1.jpg\t2,7,4\n1.jpg\t3\n1.jpg\t1,5\n");
  const auto dataset = open_dataset({.rec = folder_ / "list.tsv"});
  EXPECT_EQ(dataset->info().classes, 8);
  EXPECT_EQ(dataset->info().labels_per_image, 3);
  EXPECT_THAT(labels_of(*dataset), ElementsAre(7, 3, 5));
  std::vector<std::int64_t> others(2);
  for (const auto& [image, want] :
       {std::pair(0, std::vector<std::int64_t>{4, 2}), {1, {-1, -1}}, {2, {1, -1}}}) {
    dataset->other_labels(image, others);
    EXPECT_EQ(others, want) << image;
  }
  EXPECT_THAT(dataset->info().warnings,
              ElementsAre(HasSubstr("the smallest label is 1"), HasSubstr("8 classes")));
  const std::string before = dataset->briefs()[0].holds;
  write("list.tsv", "path\tlabels\n1.jpg\t2,7,6\n1.jpg\t3\n1.jpg\t1,5\n");
  EXPECT_NE(open_dataset({.rec = folder_ / "list.tsv"})->briefs()[0].holds, before);
}

TEST_F(ImageFiles, RejectLabelsThatRepeatOrAreNotIntegers) {
  write("1.jpg", make_jpeg(16, 16, 1));
  for (const char* labels : {"1,1", "1,", ",1", "1,,2", "1, 2", "1,x", "1,-1", "17,000000"}) {
    write("list.tsv", std::string("1.jpg\t0\n1.jpg\t") + labels + "\n");
    EXPECT_THAT(error({.rec = folder_ / "list.tsv"}),
                AllOf(HasSubstr("list.tsv: line 2: found '"), HasSubstr("separated by commas")))
        << labels;
  }
}

TEST_F(ImageFiles, NameTheInvalidLine) {
  write("1.jpg", make_jpeg(16, 16, 1));
  for (const char* line : {"1\t2", "1\tx\t1.jpg", "1\t-1\t1.jpg", "1\t1.5\t1.jpg", "1\t0\t"}) {
    write("a.lst", std::string("0\t0\t1.jpg\n") + line + "\n");
    EXPECT_THAT(error({.rec = folder_ / "a.lst"}), HasSubstr("a.lst: line 2: found '")) << line;
  }
  write("b.tsv", "1.jpg\t0\n1.jpg\tnone\n");
  EXPECT_THAT(error({.rec = folder_ / "b.tsv"}), HasSubstr("b.tsv: line 2: found '"));
  write("c.lst", "\n\n");
  EXPECT_THAT(error({.rec = folder_ / "c.lst"}), HasSubstr("no images"));
}

TEST_F(ImageFiles, ReportWhichFilesAreExpectedInAFolderWithoutImages) {
  EXPECT_THAT(error({.rec = folder_.path()}),
              HasSubstr("train.rec: not found; expected a folder with train.rec"));
  EXPECT_THAT(error({.rec = folder_.path()}), HasSubstr("the folder is empty"));
  write("a.xyz", "x");
  EXPECT_THAT(error({.rec = folder_.path()}), HasSubstr("found there: a.xyz"));
  std::filesystem::create_directories(folder_ / "nobody");
  EXPECT_THAT(error({.rec = folder_.path()}), HasSubstr("no images; expected at least one"));
}

TEST_F(ImageFiles, RejectAnUnfinishedFolder) {
  write("ada/1.jpg", make_jpeg(16, 16, 1));
  for (const char* part : {"train.lst.part", "train.rec.part"}) {
    write(part, std::string());
    EXPECT_THAT(error({.rec = folder_.path()}),
                AllOf(HasSubstr(std::string(part) + ": this data set is not finished"),
                      HasSubstr("run the same pfcctl data command again")));
    std::filesystem::remove(folder_ / part);
  }
  // Another data set that is still being written, and will replace this one.
  write("train.rec.part", std::string());
  write("train.lst", "0\t0\tada/1.jpg\n");
  EXPECT_EQ(open_dataset({.rec = folder_.path()})->info().images, 1);
}

}  // namespace
}  // namespace pfc
