// Tests RecordIO that is written over several runs.
#include "data/records/writing/resumable_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "data/records/record_format.h"
#include "data/records/record_index.h"
#include "data/records/record_reader.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::read_file;
using testing::write_file;

using Bytes = std::vector<std::byte>;

/// Returns a payload that contains the magic word, and has another length for each number.
Bytes payload(std::int64_t number) {
  Bytes bytes(static_cast<std::size_t>(8 + number * 3), static_cast<std::byte>(number));
  std::memcpy(bytes.data() + 4, &kRecordMagic, 4);
  return bytes;
}

class ResumableRecords : public ::testing::Test {
 protected:
  std::int64_t start(std::int64_t until, const std::string& what = "this") {
    ResumableWriter writer(rec_, idx_, what);
    const std::int64_t had = writer.written();
    for (std::int64_t i = had; i < until; ++i) writer.append(i, payload(i));
    return had;
  }
  std::int64_t finish(std::int64_t count, const std::string& what = "this") {
    ResumableWriter writer(rec_, idx_, what);
    const std::int64_t had = writer.written();
    for (std::int64_t i = had; i < count; ++i) writer.append(i, payload(i));
    writer.close();
    return had;
  }
  void expect_whole(std::int64_t count) {
    const RecordReader reader(rec_);
    const RecordIndex index = read_record_index(idx_, reader);
    ASSERT_EQ(std::ssize(index.keys), count);
    EXPECT_EQ(reader.scan(), index.offsets);
    ImageBuffer storage;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto read = reader.read(index.offsets[static_cast<std::size_t>(i)], storage);
      EXPECT_EQ(Bytes(read.begin(), read.end()), payload(i));
    }
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename());
    }
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("train.rec", "train.idx"));
  }
  [[nodiscard]] std::filesystem::path part(const std::filesystem::path& file) const {
    return file.string() + ".part";
  }

  TemporaryFolder folder_;
  std::filesystem::path rec_ = folder_ / "train.rec", idx_ = folder_ / "train.idx";
};

TEST_F(ResumableRecords, ContinueWhereARunEnded) {
  EXPECT_EQ(start(3), 0);
  EXPECT_FALSE(std::filesystem::exists(rec_));
  EXPECT_EQ(start(7), 3);
  finish(10);
  expect_whole(10);
}

TEST_F(ResumableRecords, DoNotOverwriteTheTargetOfALink) {
  write_file_atomically(folder_ / "precious", "text");
  for (const auto& file : {rec_, idx_}) {
    std::filesystem::create_symlink("precious", part(file));
    EXPECT_THROW(finish(1), StorageError);
    std::filesystem::remove(part(file));
  }
  EXPECT_EQ(read_text(folder_ / "precious", 10), "text");
}

/// Large records are written without going through the buffer.
TEST_F(ResumableRecords, MayBeLargerThanTheWriteBuffer) {
  const std::vector<std::size_t> sizes{100, 1 << 20, 3 << 20, 700'000, 700'000, 10, 2 << 20};
  ResumableWriter writer(rec_, idx_, "this");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    writer.append(static_cast<std::int64_t>(i), Bytes(sizes[i], static_cast<std::byte>(i)));
  }
  writer.close();
  const RecordReader reader(rec_);
  const std::vector<std::uint64_t> offsets = read_record_index(idx_, reader).offsets;
  EXPECT_EQ(reader.scan(), offsets);
  ImageBuffer storage;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto read = reader.read(offsets[i], storage);
    EXPECT_TRUE(std::ranges::equal(read, Bytes(sizes[i], static_cast<std::byte>(i)))) << i;
  }
}

TEST_F(ResumableRecords, StartFromScratchForOtherContent) {
  start(5, "that");
  EXPECT_EQ(start(2, "this"), 0);
  finish(4);
  expect_whole(4);
}

TEST_F(ResumableRecords, HaveOneWriterAtATime) {
  ResumableWriter writer(rec_, idx_, "this");
  writer.append(0, payload(0));
  EXPECT_THAT(testing::message_of<StorageError>([&] { ResumableWriter(rec_, idx_, "that"); }),
              ::testing::HasSubstr("train.rec.begun.part: another process writes this file"));
  writer.close();
  expect_whole(1);
}

/// A .rec means that the data set is complete, so it must appear last.
TEST_F(ResumableRecords, RecFileAppearsAfterTheIdxFile) {
  ResumableWriter writer(rec_, idx_, "this");
  writer.append(0, payload(0));
  std::filesystem::create_directories(idx_ / "in the way");
  EXPECT_THROW(writer.close(), StorageError);
  EXPECT_FALSE(std::filesystem::exists(rec_));
}

/// The program was killed while it finished, when only one file already had its final name.
TEST_F(ResumableRecords, StartFromScratchIfOnlyTheIdxIsFinal) {
  start(5);
  std::filesystem::rename(part(idx_), idx_);
  finish(5);
  expect_whole(5);
}

/// A program that is killed at any moment leaves such files.
TEST_F(ResumableRecords, FindTheLastCompleteRecordAfterAnyTruncation) {
  start(6);
  const Bytes rec = read_file(part(rec_)), idx = read_file(part(idx_));
  const Bytes begun = read_file(rec_.string() + ".begun.part");
  std::vector<std::uint64_t> ends = RecordReader(part(rec_)).scan();
  ends.erase(ends.begin());
  ends.push_back(rec.size());
  for (std::size_t cut = 0; cut <= rec.size(); ++cut) {
    write_file(rec_.string() + ".begun.part", begun);
    write_file(part(rec_), std::span(rec).first(cut));
    write_file(part(idx_), idx);
    const auto whole = std::ranges::count_if(ends, [&](auto end) { return end <= cut; });
    EXPECT_EQ(finish(8), whole) << cut;
    expect_whole(8);
  }
  for (std::size_t cut = 0; cut <= idx.size(); ++cut) {
    write_file(rec_.string() + ".begun.part", begun);
    write_file(part(rec_), rec);
    write_file(part(idx_), std::span(idx).first(cut));
    EXPECT_EQ(finish(8), std::ranges::count(std::span(idx).first(cut), std::byte{'\n'})) << cut;
    expect_whole(8);
  }
}

TEST_F(ResumableRecords, StartFromScratchWithoutACompleteDescription) {
  start(6, "this and that");
  const std::string begun = rec_.string() + ".begun.part";
  const Bytes bytes = read_file(begun);
  write_file(begun, std::span(bytes).first(bytes.size() - 1));
  EXPECT_EQ(start(6, "this and that"), 0);
}

TEST_F(ResumableRecords, KeepTheNotesOfEarlierRuns) {
  {
    ResumableWriter writer(rec_, idx_, "this");
    EXPECT_THAT(writer.notes(), IsEmpty());
    writer.note("1\tbad");
    writer.append(0, payload(0));
    writer.note("7\tworse");
  }
  {
    ResumableWriter writer(rec_, idx_, "this");
    EXPECT_THAT(writer.notes(), ElementsAre("1\tbad", "7\tworse"));
    writer.note("9\tthe worst");
  }
  EXPECT_EQ(ResumableWriter(rec_, idx_, "this").notes().size(), 3u);
  EXPECT_THAT(ResumableWriter(rec_, idx_, "other").notes(), IsEmpty());
}

TEST_F(ResumableRecords, ReplaceTheFirstRecord) {
  const Bytes other(20, std::byte{5});
  {
    ResumableWriter writer(rec_, idx_, "this");
    writer.append(0, Bytes(20, std::byte{4}));
    writer.append(1, payload(1));
    writer.replace_first(other);
    writer.close();
  }
  ImageBuffer storage;
  const auto read = RecordReader(rec_).read(0, storage);
  EXPECT_EQ(Bytes(read.begin(), read.end()), other);
}

}  // namespace
}  // namespace pfc
