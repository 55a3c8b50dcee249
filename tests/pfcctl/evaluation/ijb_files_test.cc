#include "pfcctl/evaluation/ijb_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class IjbFiles : public ::testing::Test {
 protected:
  IjbFiles() {
    std::filesystem::create_directory(folder_ / "meta");
    write("name_5pts_score.txt", kFaces);
    write("face_tid_mid.txt", "a.jpg 7 2\n..b.jpg 3 1\n");
    write("template_pair_label.txt", "7 3 0\n7 7 1\n");
    write("1N_probe_mixed.csv", kSubjects);
    write("1N_gallery_G1.csv", "3,30\n");
    write("1N_gallery_G2.csv", kSubjects);
  }
  [[nodiscard]] std::filesystem::path list(const std::string& name) const {
    return folder_ / ("meta/ijbc_" + name);
  }
  void write(const std::string& name, const std::string& text) { write_file(list(name), text); }
  [[nodiscard]] std::string refusal() const {
    return message_of<InputError>([&] { read_ijb_lists(folder_.path()); });
  }

  static constexpr const char* kFaces =
      "a.jpg 1 2 3 4 5 6 7 8 9 10 0.5\n..b.jpg 11 2 3 4 5 6 7 8 9 -10 1\n";
  static constexpr const char* kSubjects = "TEMPLATE_ID,SUBJECT_ID\n3,30\n3,30\n7,70\n";
  const TemporaryFolder folder_;
};

TEST_F(IjbFiles, AreReadSortedByTemplate) {
  // Line ends and byte order mark as written by Windows editors.
  write("name_5pts_score.txt",
        "\xef\xbb\xbf"
        "a.jpg 1 2 3 4 5 6 7 8 9 10 0.5\r\n..b.jpg 11 2 3 4 5 6 7 8 9 -10 1\r\n");
  const IjbLists lists = read_ijb_lists(folder_.path());
  ASSERT_EQ(lists.faces.size(), 2U);
  EXPECT_EQ(lists.faces[0].image, "..b.jpg");
  EXPECT_EQ(lists.faces[0].template_id, 3);
  EXPECT_EQ(lists.faces[1].image, "a.jpg");
  EXPECT_EQ(lists.faces[1].landmarks[4].y, 10);
  EXPECT_EQ(lists.faces[1].score, 0.5f);
  ASSERT_EQ(lists.pairs.size(), 2U);
  EXPECT_TRUE(lists.pairs[1].same);
  EXPECT_EQ(lists.probes.size(), 2U);
  ASSERT_EQ(lists.galleries.size(), 2U);
  EXPECT_EQ(lists.galleries[0].size(), 1U) << "a list without a heading";
}

TEST_F(IjbFiles, AreReadThroughLinks) {
  std::filesystem::rename(list("face_tid_mid.txt"), folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", list("face_tid_mid.txt"));
  EXPECT_EQ(read_ijb_lists(folder_.path()).faces.size(), 2U);
}

TEST_F(IjbFiles, RejectMalformedLines) {
  const std::string faces = "name_5pts_score.txt", media = "face_tid_mid.txt",
                    pairs = "template_pair_label.txt", probes = "1N_probe_mixed.csv";
  const std::string points = " 1 2 3 4 5 6 7 8 9 ";
  struct Case {
    std::string file, text, words;
  };
  const std::string first = "a.jpg 7 2\n";
  for (const auto& [file, text, words] : std::vector<Case>{
           {faces, "a.jpg" + points + "nan 1\n", "line 1: expected a number, found \"nan\""},
           {faces, "a.jpg" + points + "inf 1\n", "line 1: expected a number, found \"inf\""},
           {faces, "a.jpg" + points + "1e999 1\n", "line 1: expected a number, found \"1e999\""},
           {faces, "a.jpg" + points + "10 nan\n", "line 1: expected a number, found \"nan\""},
           {faces, "a.jpg" + points + "10\n", "line 1: expected 12 fields, found 11"},
           {faces, "a.jpg" + points + "0x10 1\n", "line 1: expected a number, found \"0x10\""},
           {faces, std::string("a.jpg") + points + std::string("1\0 1", 4),
            "line 1: expected a number, found \"1 \""},
           {faces, "../a.jpg" + points + "10 1\n", "line 1: expected a file in loose_crop"},
           {faces, "/a.jpg" + points + "10 1\n", "line 1: expected a file in loose_crop"},
           {faces, "", "name_5pts_score.txt: found no images"},
           {faces, "\xff\xfe" + std::string("a\0.\0", 4), "line 1: expected 12 fields, found 1"},
           {faces, std::string(20'000, 'x'), "line 1: longer than"},
           {media, first, "found 1 lines, expected one for each of the 2"},
           {media, first + "..b.jpg 3 1\n" + first, "line 3: expected as many lines"},
           {media, first + "..b.jpg 99999999999999999999 1\n", "line 2: expected a number"},
           {media, "..b.jpg 3 1\na.jpg 7 2\n",
            "line 1: expected \"a.jpg\", the next image of ijbc_name_5pts_score.txt, found "
            "\"..b.jpg\""},
           {media, first + "..b.jpg 3\n", "line 2: expected 3 fields, found 2"},
           {pairs, "7 3 2\n", "line 1: expected 0 or 1 in field 3"},
           {pairs, "7 3 0\n3 3 -1\n", "line 2: expected 0 or 1 in field 3"},
           {pairs, "7 3 0\n7 8 1\n", "line 2: expected templates that are in _face_tid_mid.txt"},
           {probes, "TEMPLATE_ID,SUBJECT_ID\n3,1\n8,1\n", "line 3: expected templates that are in"},
           {pairs, "7 3 0\n", "found only pairs with label 0, expected pairs of one person"},
           {pairs, "7 3 1\n", "found only pairs with label 1, expected pairs of one person"},
           {pairs, "", "found no pairs"},
           {probes, "TEMPLATE_ID,SUBJECT_ID\n3\n", "line 2: expected 2 fields, found 1"},
           {probes, "TEMPLATE_ID,SUBJECT_ID\nx,1\n", "line 2: expected a number, found \"x\""},
           {probes, "TEMPLATE_ID,SUBJECT_ID\n", "no templates"}}) {
    const auto good = testing::read_file(list(file));
    write(file, text);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("meta/ijbc_"), HasSubstr(words))) << text;
    write(file, std::string(reinterpret_cast<const char*>(good.data()), good.size()));
  }
}

TEST_F(IjbFiles, RejectPathsThatAreNotFiles) {
  std::filesystem::remove(list("template_pair_label.txt"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("template_pair_label.txt"), HasSubstr("cannot open")));
  ASSERT_EQ(mkfifo(list("template_pair_label.txt").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("not a regular file but a FIFO"));
  std::filesystem::remove(list("1N_gallery_G2.csv"));
  std::filesystem::remove(list("template_pair_label.txt"));
  write("template_pair_label.txt", "7 3 0\n7 7 1\n");
  EXPECT_THAT(refusal(), HasSubstr("ijbc_1N_gallery_G2.csv"));
}

}  // namespace
}  // namespace pfc
