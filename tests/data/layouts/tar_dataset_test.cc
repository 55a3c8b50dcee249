// Tests WebDataset shards made by tar and by Python's tarfile.
#include "data/layouts/tar_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "common/files/regular_file.h"
#include "data/layouts/layout.h"
#include "data/layouts/tar_reader.h"
#include "data/staging.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_jpeg;
using testing::message_of;
using ::testing::SizeIs;

class TarShards : public testing::DataFolder {
 protected:
  /// Writes an image and its label.
  void sample(const std::string& key, unsigned seed, const std::string& label) const {
    write("in/" + key + ".jpg", make_jpeg(16, 16, seed));
    write("in/" + key + ".cls", label);
  }
  void pack(const std::string& name, const std::string& format,
            const std::string& what = ".") const {
    const std::string command = "tar --sort=name --format=" + format + " -C " +
                                (folder_ / "in").string() + " -cf " + (folder_ / name).string() +
                                " " + what;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(concurrency-mt-unsafe)
  }
  [[nodiscard]] std::string bytes_of(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(TarShards, SupportEveryFormatOfTar) {
  const std::string deep = std::string(60, 'd') + "/" + std::string(60, 'e');
  sample("a/0", 1, "5\n");
  sample("a/1", 2, " 0 ");
  sample(deep + "/" + std::string(20, 'n') + "/2", 3, "16777217");  // not representable in float32
  for (const char* format : {"ustar", "gnu", "pax"}) {
    SCOPED_TRACE(format);
    pack("x.tar", format);
    const auto dataset = open_dataset({.rec = folder_ / "x.tar"});
    EXPECT_THAT(labels_of(*dataset), ElementsAre(5, 0, 16777217));
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(image_of(*dataset, i), make_jpeg(16, 16, i + 1));
  }
}

TEST_F(TarShards, AcceptAllExtensionsOfImagesAndLabels) {
  write("in/a.input.JPG", make_jpeg(16, 16, 1));
  write("in/a.target.CLS", "3");
  write("in/b.jpg", make_jpeg(16, 16, 2));
  write("in/b.txt", "4\n");
  write("in/c.jpeg", make_jpeg(16, 16, 3));
  write("in/c.class", "5");
  write("in/c.txt", "6 cats");
  pack("x.tar", "pax");
  EXPECT_THAT(labels_of(*open_dataset({.rec = folder_ / "x.tar"})), ElementsAre(3, 4, 5));
}

TEST_F(TarShards, UseFoldersAsPeopleIfThereAreNoLabels) {
  write("in/root/grace/1.a.jpg", make_jpeg(16, 16, 1));
  write("in/root/grace/1.b.jpg", make_jpeg(16, 16, 2));
  write("in/root/ada/1.jpg", make_jpeg(16, 16, 3));
  write("in/root/ada/@eaDir/1.jpg/thumb.jpg", make_jpeg(16, 16, 4));
  write("in/root/.cache/1.jpg", make_jpeg(16, 16, 5));
  pack("x.tar", "pax");
  const auto dataset = open_dataset({.rec = folder_ / "x.tar"});
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1, 1));
  EXPECT_EQ(dataset->identity(0), "ada");
  EXPECT_EQ(dataset->identity(1), "grace");
  EXPECT_EQ(dataset->info().layout, "1 WebDataset shard, a folder for each person");
  EXPECT_THAT(dataset->info().warnings,
              ElementsAre(HasSubstr("left out 2 images in hidden folders")));
}

TEST_F(TarShards, RejectFoldersOfSeveralLevels) {
  write("in/train/ada/1.jpg", make_jpeg(16, 16, 1));
  write("in/val/ada/1.jpg", make_jpeg(16, 16, 2));
  pack("x.tar", "pax");
  EXPECT_THAT(error(folder_ / "x.tar"),
              HasSubstr("no image has a label, and images are in 'train/ada' and in 'val/ada'"));
  std::filesystem::remove_all(folder_ / "in/val");
  write("in/1.jpg", make_jpeg(16, 16, 3));
  pack("x.tar", "pax");
  EXPECT_THAT(error(folder_ / "x.tar"),
              HasSubstr("images are outside of folders and in 'train/ada'"));
  std::filesystem::remove(folder_ / "in/1.jpg");
  pack("x.tar", "pax");
  EXPECT_THAT(error(folder_ / "x.tar"), HasSubstr("has an image and a label"))
      << "one folder of images is not one person";
}

TEST_F(TarShards, DescribeTheFirstIncompleteSample) {
  write("in/people/a.jpg", make_jpeg(16, 16, 1));
  write("in/people/a.json", R"({"identity": 3, "name": "Ada"})");
  write("in/more/b.jpg", make_jpeg(16, 16, 2));
  pack("x.tar", "pax", "people more");
  EXPECT_THAT(error(folder_ / "x.tar"),
              AllOf(HasSubstr("none of 2 samples has an image and a label; the first one is "
                              "people/a.jpg, people/a.json (its keys: identity name); expected"),
                    HasSubstr("in .json under label, cls or class")));
  write("in/people/a.json", R"({"label": "ada"})");
  pack("x.tar", "pax", "people more");
  EXPECT_THAT(error(folder_ / "x.tar"),
              HasSubstr("people/a.json (label ada, expected a number >= 0)"));
  write("in/people/a.cls", "3");
  pack("x.tar", "pax");
  EXPECT_THAT(labels_of(*open_dataset({.rec = folder_ / "x.tar"})), ElementsAre(3));
}

TEST_F(TarShards, ReportSkippedImages) {
  sample("0", 1, "5");
  write("in/0.left.jpg", make_jpeg(16, 16, 2));
  pack("x.tar", "pax");
  const auto dataset = open_dataset({.rec = folder_ / "x.tar"});
  EXPECT_EQ(dataset->info().images, 1);
  EXPECT_THAT(dataset->info().warnings,
              Contains(HasSubstr("left out 1 image, because only the first image of a sample is "
                                 "used")));
  std::filesystem::remove(folder_ / "in/0.cls");
  pack("y.tar", "pax");
  EXPECT_THAT(error(folder_ / "y.tar"), HasSubstr("none of 1 sample has an image and a label"));
}

TEST_F(TarShards, ReadJsonLabelsFromPythonsTarfile) {
  write("in/k.jpg", make_jpeg(16, 16, 1));
  write("in/k.json", R"({"label": 3, "name": "Ada"})");
  const std::string command = "/usr/bin/python3 -c \"import tarfile; t = tarfile.open('" +
                              (folder_ / "x.tar").string() + "', 'w'); t.add('" +
                              (folder_ / "in").string() + "', arcname='" + std::string(180, 'p') +
                              "')\"";
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(labels_of(*open_dataset({.rec = folder_ / "x.tar"})), ElementsAre(3));
}

TEST_F(TarShards, AreInTheOrderOfTheirNames) {
  sample("0", 1, "4");
  pack("s-000.tar", "pax");
  sample("0", 1, "2");
  pack("s-001.tar", "pax");
  std::filesystem::remove_all(folder_ / "in");
  EXPECT_THAT(labels_of(*open_dataset({.rec = folder_.path()})), ElementsAre(4, 2));
  EXPECT_THAT(labels_of(*open_dataset({.rec = folder_ / "s-{000..001}.tar"})), ElementsAre(4, 2));
  EXPECT_THAT(error(folder_ / "s-{000..002}.tar"), HasSubstr("s-002.tar"));
  EXPECT_THAT(error(folder_ / "s-{000..001}.zip"),
              HasSubstr("s-{000..001}.zip: not found; only names of .rec and .tar files"));
}

TEST_F(TarShards, UseTheNamesNextToTheFirstShard) {
  sample("0", 1, "1");
  pack("s-000.tar", "pax");
  EXPECT_EQ(open_dataset({.rec = folder_ / "s-000.tar"})->identity(1), "");
  write("identities.txt", "Ada\nGrace\n");
  for (const char* rec : {"", "s-000.tar", "s-{000..000}.tar"}) {
    const auto dataset = open_dataset({.rec = folder_ / rec});
    EXPECT_EQ(dataset->identity(0), "Ada");
    EXPECT_EQ(dataset->identity(1), "Grace");
  }
  write("identities.txt", "Ada\n");
  EXPECT_THAT(error(folder_.path()), HasSubstr("identities.txt: found 1 lines, expected 2"));
}

TEST_F(TarShards, SkipAndCountIncompleteSamples) {
  sample("0", 1, "1");
  write("in/1.jpg", make_jpeg(16, 16, 2));
  write("in/2.cls", "7");
  write("in/3.txt", "a caption");
  pack("x.tar", "pax");
  const auto dataset = open_dataset({.rec = folder_ / "x.tar"});
  EXPECT_THAT(labels_of(*dataset), ElementsAre(1));
  EXPECT_THAT(dataset->info().warnings, Contains(HasSubstr("left out 3 samples")));
}

TEST_F(TarShards, NameAMemberWithAnInvalidLabel) {
  sample("0", 1, "cat");
  pack("x.tar", "pax");
  EXPECT_THAT(error(folder_ / "x.tar"), HasSubstr("0.cls: found 'cat', expected a label"));
}

TEST_F(TarShards, ReportWhereTheyAreTruncated) {
  sample("0", 1, "1");
  pack("x.tar", "pax");
  const std::string whole = bytes_of("x.tar");
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{1600}, std::size_t{2100}}) {
    write("cut.tar", whole.substr(0, bytes));
    EXPECT_THAT(error(folder_ / "cut.tar"), HasSubstr("cut.tar: offset ")) << bytes;
  }
  write("text.tar", std::string(2000, 'x'));
  EXPECT_THAT(error(folder_ / "text.tar"), HasSubstr("not a tar archive"));
}

TEST_F(TarShards, WarnIfTheyMayBeTruncatedBetweenMembers) {
  sample("0", 1, "1");
  sample("1", 2, "0");
  pack("x.tar", "ustar");
  EXPECT_THAT(open_dataset({.rec = folder_ / "x.tar"})->info().warnings, SizeIs(0));
  const std::string whole = bytes_of("x.tar");
  write("cut.tar", whole.substr(0, whole.find("./1.cls")));
  const auto dataset = open_dataset({.rec = folder_ / "cut.tar"});
  EXPECT_EQ(dataset->info().images, 1);
  EXPECT_THAT(dataset->info().warnings,
              Contains(HasSubstr("cut.tar: has no block of zeros at its end")));
}

TEST_F(TarShards, WarnOfMissingNumbers) {
  sample("0", 1, "0");
  pack("x.tar", "pax");
  for (const char* name : {"other-9.tar", "s-000.tar", "s-001.tar", "s-004.tar", "s-006.tar"}) {
    write(std::string("set/") + name, bytes_of("x.tar"));
  }
  EXPECT_THAT(open_dataset({.rec = folder_ / "set"})->info().warnings,
              ElementsAre(HasSubstr("s-001.tar: the next shard is s-004.tar: 2 shards between them "
                                    "are missing"),
                          HasSubstr("s-004.tar: the next shard is s-006.tar: 1 shard between them "
                                    "is missing")));
}

TEST_F(TarShards, AreCompleteWithoutLeadingZeros) {
  sample("0", 1, "0");
  pack("x.tar", "pax");
  for (int i = 0; i < 12; ++i) write(fmt::format("set/s-{}.tar", i), bytes_of("x.tar"));
  EXPECT_THAT(open_dataset({.rec = folder_ / "set"})->info().warnings, IsEmpty());
  std::filesystem::remove(folder_ / "set/s-10.tar");
  EXPECT_THAT(open_dataset({.rec = folder_ / "set"})->info().warnings,
              ElementsAre(HasSubstr("s-9.tar: the next shard is s-11.tar: 1 shard between")));
}

TEST_F(TarShards, AreCompleteWithDatesInTheirNames) {
  sample("0", 1, "0");
  pack("x.tar", "pax");
  for (const char* date : {"20240101", "20240301"}) {
    write(fmt::format("set/{}.tar", date), bytes_of("x.tar"));
  }
  EXPECT_THAT(open_dataset({.rec = folder_ / "set"})->info().warnings, IsEmpty());
}

TEST_F(TarShards, WarnOfMissingNumbersWhenStaged) {
  sample("0", 1, "0");
  pack("x.tar", "pax");
  std::filesystem::create_directories(folder_ / "fast");
  for (const int i : {8, 9, 10, 12}) write(fmt::format("set/s-{}.tar", i), bytes_of("x.tar"));
  const auto there = stage_dataset(folder_ / "set", folder_ / "fast");
  EXPECT_THAT(open_dataset({.rec = there})->info().warnings,
              ElementsAre(HasSubstr("000000-s-10.tar: the next shard is 000001-s-12.tar")));
}

TEST_F(TarShards, WarnOfBytesAfterTheirEnd) {
  sample("0", 1, "0");
  pack("x.tar", "pax");
  const std::string whole = bytes_of("x.tar");
  write("two.tar", whole + whole);
  const auto two = open_dataset({.rec = folder_ / "two.tar"});
  EXPECT_EQ(two->info().images, 1);
  EXPECT_THAT(two->info().warnings,
              ElementsAre(HasSubstr(fmt::format("two.tar: {} bytes after the end of the archive "
                                                "(a block of zeros) are not read",
                                                whole.size()))));
  write("padded.tar", whole + std::string(100'000, '\0'));
  EXPECT_THAT(open_dataset({.rec = folder_ / "padded.tar"})->info().warnings, IsEmpty());
}

TEST_F(TarShards, ReportTheirCompression) {
  const auto refusal = [&](const std::string& begin) {
    write("x.tar", begin + std::string(2000, 'x'));
    return error(folder_ / "x.tar");
  };
  EXPECT_THAT(refusal("\x1f\x8b"), HasSubstr("compressed with gzip: decompress it first"));
  EXPECT_THAT(refusal("\x28\xb5\x2f\xfd"), HasSubstr("with zstd: decompress it first, for "
                                                     "example with unzstd"));
  EXPECT_THAT(refusal("\xfd"
                      "7zXZ"),
              HasSubstr("with xz: decompress it first"));
  EXPECT_THAT(refusal("BZh91AY&SY"), HasSubstr("with bzip2: decompress it first"));
}

/// Returns a member of an archive. If `size` is not empty, it replaces the content of the header's
/// size field.
std::string member(char type, const std::string& content, const std::string& size = "") {
  std::string header(512, '\0');
  header[0] = 'm';
  header.replace(124, 12, size.empty() ? fmt::format("{:011o} ", content.size()) : size);
  header[156] = type;
  header.replace(148, 8, "        ");
  int sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o} ", sum));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

TEST_F(TarShards, RejectDamagedSizes) {
  const auto opened = [&](const std::string& archive) {
    write("x.tar", archive);
    const RegularFile file(folder_ / "x.tar");
    return TarReader(file).next();
  };
  const auto error_of = [&](const std::string& archive) {
    return message_of<InputError>([&] { opened(archive); });
  };
  const std::string last = member('0', std::string(20, 'x'));
  EXPECT_EQ(opened(member('x', "10 size=7\n") + last)->bytes, 7u);
  EXPECT_THAT(error_of(member('x', "11 size=7x\n") + last),
              HasSubstr("whose size is not a number"));
  EXPECT_THAT(error_of(member('x', "10_size=7\n") + last), HasSubstr("header that is damaged"));
  EXPECT_THAT(error_of(member('x', "10 size=7x") + last), HasSubstr("header that is damaged"));
  EXPECT_THAT(error_of(member('0', "x", std::string(12, '\xff'))), HasSubstr("is negative"));
}

TEST_F(TarShards, ReportTheOffsetThatCannotBeRead) {
  write("x.tar", member('0', "17") + member('0', "18"));
  const RegularFile file(folder_ / "x.tar");
  TarReader reader(file);
  const auto first = reader.next();
  std::filesystem::resize_file(folder_ / "x.tar", 512);
  EXPECT_THAT(message_of<InputError>([&] { (void)reader.text(*first, 64); }),
              HasSubstr("x.tar: offset 512: the archive ends or is unreadable here"));
}

TEST_F(TarShards, RandomDamageNeverCrashes) {
  sample("a/0", 1, "5");
  sample(std::string(120, 'd') + "/1", 2, "0");
  std::mt19937 random(7);
  for (const char* format : {"gnu", "pax"}) {
    pack("x.tar", format);
    const std::string whole = bytes_of("x.tar");
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      for (unsigned k = 0; k <= random() % 3; ++k) {
        // Changes a byte of a header, whose checksum is then usually wrong, or any byte.
        bytes[random() % 2 == 0 ? random() % bytes.size() : random() % 3 * 512 + random() % 512] =
            static_cast<char>(random());
      }
      write("y.tar", bytes);
      try {
        const auto dataset = open_dataset({.rec = folder_ / "y.tar"});
        labels_of(*dataset);
      } catch (const InputError&) {
      }
    }
  }
}

TEST(Braces, ExpandToNumbersWithTheSameNumberOfDigits) {
  EXPECT_THAT(expand_braces("s-{08..11}.tar"),
              ElementsAre("s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"));
  EXPECT_THAT(expand_braces("plain.tar"), ElementsAre("plain.tar"));
  EXPECT_THAT(expand_braces("{0..999999}"), SizeIs(1'000'000));
  for (const char* wrong :
       {"{", "{1}", "{1..}", "{..2}", "{2..1}", "{a..b}", "{0..99999999}", "{0..1}-{0..1}"}) {
    EXPECT_THROW(expand_braces(wrong), InputError) << wrong;
  }
}

}  // namespace
}  // namespace pfc
