// Tests LMDB data sets that liblmdb has written.
#include "data/layouts/lmdb_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstring>
#include <map>
#include <random>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/damaged_image.h"
#include "data/layouts/lmdb_reader.h"
#include "data/records/property_file.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/lmdb_pages.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LmdbPages;
using testing::make_jpeg;
using testing::message_of;
using testing::read_file;
using testing::write_file;

using Entries = std::map<std::string, std::string>;

void succeed(int rc) { check(rc == 0, mdb_strerror(rc)); }

std::string text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Writes the entries, `at_once` of them per transaction. An entry with an empty value is removed
/// from the database.
void write_lmdb(const fs::path& folder, const std::vector<std::pair<std::string, std::string>>& all,
                std::size_t at_once = 1000, const char* database = nullptr, unsigned flags = 0) {
  fs::create_directories(folder);
  MDB_env* env = nullptr;
  succeed(mdb_env_create(&env));
  succeed(mdb_env_set_mapsize(env, std::size_t{1} << 30));
  succeed(mdb_env_set_maxdbs(env, 1));
  succeed(mdb_env_open(env, folder.c_str(), MDB_NOSYNC, 0644));
  for (std::size_t begin = 0; begin < all.size(); begin += at_once) {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    succeed(mdb_txn_begin(env, nullptr, 0, &txn));
    succeed(mdb_dbi_open(txn, database, flags, &dbi));
    for (std::size_t i = begin; i < std::min(begin + at_once, all.size()); ++i) {
      MDB_val key{all[i].first.size(), const_cast<char*>(all[i].first.data())};
      MDB_val value{all[i].second.size(), const_cast<char*>(all[i].second.data())};
      if (all[i].second.empty()) {
        succeed(mdb_del(txn, dbi, &key, nullptr));
      } else {
        succeed(mdb_put(txn, dbi, &key, &value, 0));
      }
    }
    succeed(mdb_txn_commit(txn));
  }
  mdb_env_close(env);
}

Entries read_lmdb(const fs::path& file) {
  const RegularFile opened(file);
  const std::vector<std::byte> bytes = read_file(file);
  Entries found;
  std::string last;
  LmdbReader(opened).for_each([&](std::string_view key, const LmdbValue& value) {
    EXPECT_TRUE(found.empty() || key > last) << "expected the order of the keys";
    last = key;
    found[last] = text_of_bytes(std::span(bytes).subspan(value.offset, value.bytes));
  });
  return found;
}

class Lmdb : public testing::DataFolder {
 protected:
  std::unique_ptr<Dataset> open() const { return open_dataset({.rec = set_}); }
  [[nodiscard]] static std::string image(const Dataset& dataset, std::int64_t i) {
    return text_of_bytes(image_of(dataset, i));
  }
  static std::string jpeg(unsigned seed) { return text_of_bytes(make_jpeg(16, 16, seed)); }
  /// Same as pickle.dumps((image, label), 4).
  static std::string pickle(const std::string& image, int label) {
    std::string made("\x80\x04", 2);
    made += 'B';
    const auto bytes = static_cast<std::uint32_t>(image.size());
    made.append(reinterpret_cast<const char*>(&bytes), 4);
    made += image;
    made += 'J';
    made.append(reinterpret_cast<const char*>(&label), 4);
    return made + "\x86.";
  }
  static std::string varint(std::uint64_t number) {
    std::string made;
    for (; number >= 0x80; number >>= 7) made += static_cast<char>(number | 0x80);
    return made + static_cast<char>(number);
  }
  /// Returns Caffe's Datum, with some fields that pfc does not read.
  static std::string datum(const std::string& image, std::uint64_t label) {
    return "\x08\x03" + std::string("\x22") + varint(image.size()) + image + "\x28" +
           varint(label) + "\x35" + std::string("\0\0\x80?", 4) + "\x38\x01";
  }

  fs::path set_ = folder_ / "set";
};

TEST_F(Lmdb, ReadsWhatLiblmdbWrites) {
  std::mt19937 random(5);
  std::vector<std::pair<std::string, std::string>> puts;
  Entries expected;
  const auto text = [&](std::size_t most) {
    std::string made(1 + random() % most, '\0');
    for (char& c : made) c = static_cast<char>(random());
    return made;
  };
  for (int i = 0; i < 8000; ++i) {
    if (i % 5 == 4) {  // some entries are removed again, so that pages are freed and reused
      const std::string key = expected.begin()->first;
      puts.emplace_back(key, "");
      expected.erase(key);
      continue;
    }
    const std::string key = text(60), value = text(i % 7 == 0 ? 20'000 : 200);
    puts.emplace_back(key, value);
    expected[key] = value;
  }
  write_lmdb(set_, puts, 500);
  EXPECT_EQ(read_lmdb(set_ / "data.mdb"), expected);
  EXPECT_EQ(LmdbReader(RegularFile(set_ / "data.mdb")).entries(), expected.size());
}

TEST_F(Lmdb, ReadsTheDataOfTheLastTransaction) {
  for (int times = 1; times <= 3; ++times) {
    write_lmdb(set_, {{"key", std::to_string(times)}});
    EXPECT_EQ(read_lmdb(set_ / "data.mdb"), (Entries{{"key", std::to_string(times)}}));
  }
}

TEST_F(Lmdb, ReadsPicklesInTheOrderOfTheirNumbers) {
  write_lmdb(set_, {{"0", pickle(jpeg(1), 3)},
                    {"2", pickle(jpeg(2), 0)},
                    {"10", pickle(jpeg(3), 70'000)},
                    {"__len__", "\x80\x04K\x03."},
                    {"__keys__", "\x80\x04]."}});
  const auto dataset = open();
  EXPECT_EQ(dataset->info().layout, "LMDB, pickles of an image and a label");
  EXPECT_THAT(labels_of(*dataset), ElementsAre(3, 0, 70'000));
  EXPECT_EQ(image(*dataset, 2), jpeg(3));
  EXPECT_EQ(dataset->info().classes, 70'001);
  EXPECT_EQ(dataset->info().height, 16);
}

TEST_F(Lmdb, ReadsCaffesDatum) {
  write_lmdb(set_, {{"00000000_a", datum(jpeg(1), 1)}, {"00000001_b", datum(jpeg(2), 300)}});
  const auto dataset = open();
  EXPECT_EQ(dataset->info().layout, "LMDB, Caffe's Datum");
  EXPECT_THAT(labels_of(*dataset), ElementsAre(1, 300));
  EXPECT_EQ(image(*dataset, 1), jpeg(2));
}

TEST_F(Lmdb, ReadsImagesAndLabelsUnderSeparateKeys) {
  write_lmdb(set_, {{"image-000000002", jpeg(2)},
                    {"label-000000002", "1"},
                    {"image-000000001", jpeg(1)},
                    {"label-000000001", "0"},
                    {"image-000000003", jpeg(3)},
                    {"num-samples", "3"}});
  const auto dataset = open();
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1));
  EXPECT_EQ(image(*dataset, 0), jpeg(1));
  EXPECT_THAT(dataset->info().warnings, ElementsAre(HasSubstr("left out 1 image without a label")));
}

TEST_F(Lmdb, WarnsOfKeysThatAreNeitherImagesNorLabels) {
  write_lmdb(set_, {{"image-1", jpeg(1)},
                    {"label-1", "0"},
                    {"image-2", jpeg(2)},
                    {"label-3", "0"},
                    {"people/1.jpg", jpeg(4)}});
  EXPECT_THAT(open()->info().warnings,
              ElementsAre(HasSubstr("left out 1 image without a label"),
                          HasSubstr("left out 2 keys besides images and their labels")));
}

TEST_F(Lmdb, ReadsLabelsOfNumberedImagesFromAList) {
  write_lmdb(set_, {{"image-1", jpeg(1)}, {"image-2", jpeg(2)}, {"other", jpeg(3)}});
  write_file(set_ / "labels.txt", "image-1 4\nimage-2 2\nother 3\n");
  const auto dataset = open();
  EXPECT_THAT(labels_of(*dataset), ElementsAre(4, 2, 3));
  EXPECT_EQ(image(*dataset, 1), jpeg(2));
  EXPECT_THAT(dataset->info().warnings, ::testing::Not(::testing::Contains(HasSubstr("left out"))));
}

TEST_F(Lmdb, RejectsASetWithoutALabelledImage) {
  const auto refused = [&] {
    return message_of<InputError>(
        [&] { open_dataset({.rec = set_, .num_classes = 2, .image_size = 16}); });
  };
  write_lmdb(set_, {{"image-1", jpeg(1)}, {"label-2", "0"}});
  EXPECT_THAT(refused(), HasSubstr("data.mdb: found 1 image (keys image-NUMBER) and 1 label (keys "
                                   "label-NUMBER), but no image and label with the same number; "
                                   "expected at least one"));
  fs::remove_all(set_);
  write_lmdb(set_, {{"a.jpg", jpeg(1)}});
  write_file(set_ / "labels.txt", "b.jpg 0\n");
  EXPECT_THAT(refused(), AllOf(HasSubstr("data.mdb: found 1 image, none of which is among the 1 "
                                         "key of "),
                               HasSubstr("labels.txt; expected at least one image with a label")));
}

TEST_F(Lmdb, ReadsLabelsFromAList) {
  write_lmdb(set_, {{"ada/1.jpg", jpeg(1)}, {"bob/1.jpg", jpeg(2)}, {"eve/1.jpg", jpeg(3)}});
  EXPECT_THAT(error(set_), HasSubstr("expected a line 'KEY LABEL'"));
  write_file(set_ / "labels.txt", "bob/1.jpg 1\nada/1.jpg\t0\n");
  const auto dataset = open();
  EXPECT_THAT(labels_of(*dataset), ElementsAre(0, 1));
  EXPECT_THAT(dataset->info().warnings, ElementsAre(HasSubstr("left out 1 image without a line")));
  write_file(set_ / "labels.txt", "bob/1.jpg 1\nada/1.jpg 0\nbob/1.jpg 0\n");
  EXPECT_THAT(error(set_),
              HasSubstr("labels.txt: line 3: found another label for 'bob/1.jpg' than in an "
                        "earlier line"));
}

TEST_F(Lmdb, ReadsClassesAndSizeFromProperty) {
  write_lmdb(set_, {{"0", pickle(jpeg(1), 3)}, {"1", pickle(jpeg(2), 9)}});
  write_property(set_ / "property", {9, 112, 112});
  const auto dataset = open();
  EXPECT_EQ(dataset->info().classes, 9);
  EXPECT_EQ(dataset->info().height, 112);
  EXPECT_THAT(message_of<InputError>([&] { image_of(*dataset, 1); }),
              HasSubstr("found label 9, expected 0 .. 8"));
}

TEST_F(Lmdb, ReadsClassesAndSizeFromPropertyWithAList) {
  write_lmdb(set_, {{"a.jpg", jpeg(1)}, {"b.jpg", jpeg(2)}});
  write_file(set_ / "labels.txt", "a.jpg 0\nb.jpg 4\n");
  write_property(set_ / "property", {9, 112, 96});
  EXPECT_EQ(open()->info().classes, 9);
  EXPECT_EQ(open()->info().width, 96);
  EXPECT_EQ(open_dataset({.rec = set_, .num_classes = 7})->info().classes, 7);
  write_property(set_ / "property", {4, 112, 112});
  EXPECT_THAT(error(set_), HasSubstr("property: found 4 classes, but the greatest label is 4"));
}

TEST_F(Lmdb, NamesDamagedValues) {
  write_lmdb(set_, {{"0", pickle(jpeg(1), 3)}, {"1", "\x80\x04K\x03."}, {"2", "\x80\x04"}});
  const auto dataset = open();
  EXPECT_THAT(message_of<DamagedImage>([&] { image_of(*dataset, 1); }),
              AllOf(HasSubstr("data.mdb: image 1 (offset "),
                    HasSubstr("found an unknown pickle, expected (bytes")));
  EXPECT_THROW(image_of(*dataset, 2), DamagedImage);
}

/// When the data set is opened, the pages of values are not read, because there are as many as
/// images.
TEST_F(Lmdb, NamesDamagedPagesOfAValueWhenItIsRead) {
  write_lmdb(set_, {{"0", pickle(jpeg(1), 3)}, {"1", pickle(std::string(9000, 'x'), 1)}});
  const fs::path file = set_ / "data.mdb";
  std::uint64_t page = 0;
  {
    const RegularFile opened(file);
    LmdbReader(opened).for_each(
        [&](std::string_view, const LmdbValue& value) { page = value.offset / 4096; });
  }
  auto bytes = read_file(file);
  bytes[page * 4096] ^= std::byte{1};  // the page's number
  write_file(file, bytes);
  const auto dataset = open();
  EXPECT_NO_THROW(image_of(*dataset, 0));
  EXPECT_THAT(message_of<DamagedImage>([&] { image_of(*dataset, 1); }),
              HasSubstr(std::to_string(page) + ": expected the data of a value of "));
}

/// If nodes could overlap, one page could hold gigabytes of keys.
TEST_F(Lmdb, RejectsOverlappingNodes) {
  constexpr std::size_t kPage = LmdbPages::kPage, kLeaf = 2 * kPage;
  const std::string data(40, 'x');
  std::string file = LmdbPages::write({{"a", data}, {"b", data}, {"c", data}, {"d", data}});
  const auto put = [&](std::size_t at, std::size_t number) {
    file[at] = static_cast<char>(number);
    file[at + 1] = static_cast<char>(number >> 8);
  };
  const std::size_t lowest = static_cast<unsigned char>(file[kLeaf + 14]);
  put(kLeaf + lowest + 6, kPage - lowest - 9);  // a key nearly up to the end of the page
  for (std::size_t at = kLeaf + 16; at < kLeaf + 24; at += 2) put(at, lowest);
  write_file(folder_ / "overlap.mdb", file);
  EXPECT_THAT(message_of<InputError>([&] { read_lmdb(folder_ / "overlap.mdb"); }),
              HasSubstr("page 2: found nodes that overlap"));
}

TEST_F(Lmdb, RejectsADifferentNumberOfEntriesThanStated) {
  // Offset of the number of entries in both meta pages.
  constexpr std::size_t kPage = 4096, kEntries = 120;
  write_lmdb(set_, {{"0", pickle(jpeg(1), 3)}, {"1", pickle(jpeg(2), 1)}});
  auto bytes = read_file(set_ / "data.mdb");
  for (const int said : {3, 1}) {
    bytes[kEntries] = bytes[kPage + kEntries] = static_cast<std::byte>(said);
    write_file(set_ / "data.mdb", bytes);
    EXPECT_THAT(error(set_),
                HasSubstr("data.mdb: found 2 entries, but the file says that there are " +
                          std::to_string(said)));
  }
}

TEST_F(Lmdb, SkipsNamedDatabases) {
  write_lmdb(set_, {{"key", "1"}});
  write_lmdb(set_, {{"inner", "2"}}, 1000, "named", MDB_CREATE);
  EXPECT_EQ(read_lmdb(set_ / "data.mdb"), (Entries{{"key", "1"}}));
  EXPECT_EQ(LmdbReader(RegularFile(set_ / "data.mdb")).entries(), 2u);
}

TEST_F(Lmdb, SkipsSortedDuplicates) {
  write_lmdb(set_, {{"key", "1"}, {"twice", "2"}, {"twice", "3"}}, 1000, nullptr, MDB_DUPSORT);
  EXPECT_EQ(read_lmdb(set_ / "data.mdb"), (Entries{{"key", "1"}}));
  EXPECT_EQ(LmdbReader(RegularFile(set_ / "data.mdb")).entries(), 3u);
}

/// The file with this process's memory is a regular file whose first page cannot be read.
TEST_F(Lmdb, ReportsWhyAFileCannotBeRead) {
  EXPECT_EQ(message_of<InputError>([&] { LmdbReader(RegularFile("/proc/self/mem")); }),
            "/proc/self/mem: offset 0: cannot read: Input/output error");
}

TEST_F(Lmdb, SurvivesAnyTruncation) {
  std::vector<std::pair<std::string, std::string>> puts;
  for (int i = 0; i < 60; ++i) puts.emplace_back(std::to_string(i), std::string(30 + i * 133, 'x'));
  write_lmdb(set_, puts);
  const auto whole = read_file(set_ / "data.mdb");
  for (std::size_t cut = 0; cut < whole.size(); cut += 1021) {
    write_file(folder_ / "cut.mdb", std::span(whole).first(cut));
    EXPECT_THROW(read_lmdb(folder_ / "cut.mdb"), InputError) << cut;
  }
}

/// Every number in the file may be wrong.
TEST_F(Lmdb, SurvivesChangedBytes) {
  std::vector<std::pair<std::string, std::string>> puts;
  for (int i = 0; i < 500; ++i) {
    puts.emplace_back("key" + std::to_string(i), std::string(i % 50 == 0 ? 9000 : 20, 'x'));
  }
  write_lmdb(set_, puts);
  const auto whole = read_file(set_ / "data.mdb");
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto changed = whole;
    for (int k = 0; k < 3; ++k) {
      // Changes only the first bytes of a page, because its header is there.
      const std::size_t page = random() % (whole.size() / 4096);
      changed[page * 4096 + random() % 200] = static_cast<std::byte>(random());
    }
    write_file(folder_ / "changed.mdb", changed);
    try {
      const RegularFile file(folder_ / "changed.mdb");
      LmdbReader(file).for_each([&](std::string_view, const LmdbValue& value) {
        EXPECT_LE(value.offset + value.bytes, file.bytes());
      });
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST_F(Lmdb, RejectsFilesInOtherFormats) {
  fs::create_directories(set_);
  write_file(set_ / "data.mdb", std::string(8192, 'x'));
  EXPECT_THAT(error(set_), HasSubstr("data.mdb: page 0: found 78787878, expected LMDB's beefc0de"));
  write_lmdb(folder_ / "empty", {{"a", "b"}, {"a", ""}});
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = folder_ / "empty"}); }),
              HasSubstr("no images; expected at least one"));
}

}  // namespace
}  // namespace pfc
