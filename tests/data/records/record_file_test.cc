// Tests that RecordReader reads what RecordWriter writes, and reports errors of damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "data/damaged_image.h"
#include "data/records/record_format.h"
#include "data/records/record_index.h"
#include "data/records/record_reader.h"
#include "data/records/writing/record_writer.h"
#include "data/stored_image.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::write_file;

using Bytes = std::vector<std::byte>;

/// Returns random bytes in which about every fourth word is the magic number.
Bytes payload_with_magic(std::size_t size, std::mt19937& random) {
  Bytes payload(size);
  for (std::byte& b : payload) b = static_cast<std::byte>(random());
  for (std::size_t i = 0; i + 4 <= size; i += 4) {
    if (random() % 4 == 0) std::memcpy(payload.data() + i, &kRecordMagic, 4);
  }
  return payload;
}

class RecordFile : public ::testing::Test {
 protected:
  void write(const std::vector<Bytes>& payloads) {
    RecordWriter writer(rec_, idx_);
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      writer.append(static_cast<std::int64_t>(i), payloads[i]);
    }
    writer.close();
  }
  /// Changes the bytes of the .rec.
  template <typename Change>
  void damage(Change&& change) {
    Bytes bytes = read_file(rec_);
    change(bytes);
    write_file(rec_, bytes);
  }
  std::string read_error(std::uint64_t offset) {
    return message_of<DamagedImage>([&] { (void)RecordReader(rec_).read(offset, storage_); });
  }

  TemporaryFolder folder_;
  std::filesystem::path rec_ = folder_ / "train.rec";
  std::filesystem::path idx_ = folder_ / "train.idx";
  ImageBuffer storage_;
};

TEST_F(RecordFile, ReturnsEveryPayloadByIndexAndByScan) {
  std::mt19937 random(1);
  std::vector<Bytes> payloads;
  for (std::size_t size = 0; size < 200; ++size) {
    payloads.push_back(payload_with_magic(size, random));
  }
  payloads.push_back(payload_with_magic(100'001, random));  // longer than one read
  payloads.emplace_back(100'000);
  write(payloads);

  const RecordReader reader(rec_);
  const RecordIndex index = read_record_index(idx_, reader);
  ASSERT_EQ(index.offsets.size(), payloads.size());
  EXPECT_EQ(scan_records(reader).offsets, index.offsets);
  EXPECT_EQ(scan_records(reader).keys, index.keys);
  for (std::size_t i = payloads.size(); i-- > 0;) {
    const auto payload = reader.read(index.offsets[i], storage_);
    EXPECT_TRUE(std::ranges::equal(payload, payloads[i])) << "record " << i;
  }
  EXPECT_EQ(reader.record_end(index.offsets.back()), reader.bytes());
}

TEST_F(RecordFile, ContainsTheMagicOnlyWherePartsStart) {
  std::mt19937 random(2);
  write({payload_with_magic(4000, random)});
  const Bytes file = read_file(rec_);
  std::size_t at = 0;
  for (std::size_t i = 0; i + 4 <= file.size(); i += 4) {
    std::uint32_t words[2] = {0, 0};
    std::memcpy(words, file.data() + i, std::min<std::size_t>(8, file.size() - i));
    if (words[0] != kRecordMagic) continue;
    EXPECT_EQ(i, at) << "found the magic inside a part";
    at = i + kPartHeaderBytes + padded(part_bytes(words[1]));
  }
  EXPECT_EQ(at, file.size());
}

TEST_F(RecordFile, LeavesNothingBehindWithoutClose) {
  { RecordWriter(rec_, idx_).append(0, Bytes(100)); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RecordFile, FullDiskNamesTheFileAndLeavesNothing) {
  {
    const FileSizeLimit limit(1 << 20);
    const std::string message = message_of<StorageError>([&] { write({Bytes(3 << 20)}); });
    EXPECT_THAT(message, HasSubstr("train.rec"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RecordFile, ReportsAMissingFile) {
  EXPECT_THAT(message_of<InputError>([&] { RecordReader reader(rec_); }),
              HasSubstr("train.rec: cannot open: No such file"));
  EXPECT_THAT(message_of<InputError>([&] { RecordReader reader(folder_.path()); }),
              HasSubstr("not a regular file"));
}

TEST_F(RecordFile, NamesOffsetAndWordOfAWrongMagic) {
  write({Bytes(8), Bytes(8)});
  damage([](Bytes& b) { b[16] = std::byte{0x0b}; });
  EXPECT_THAT(read_error(16), HasSubstr("train.rec: offset 16: found 0xced7230b, expected "
                                        "RecordIO's magic 0xced7230a"));
  EXPECT_THAT(read_error(1000), HasSubstr("outside the file of 32 bytes"));
  EXPECT_THAT(read_error(~std::uint64_t{3}), HasSubstr("outside the file"));
}

TEST_F(RecordFile, ReportsTruncation) {
  write({Bytes(40), Bytes(40'000)});
  std::filesystem::resize_file(rec_, 30'000);
  EXPECT_THAT(read_error(48), HasSubstr("truncated"));
  const RecordReader reader(rec_);
  EXPECT_THAT(message_of<InputError>([&] { (void)reader.scan(); }), HasSubstr("offset 48"));
  EXPECT_THAT(message_of<InputError>([&] { (void)reader.record_end(48); }), HasSubstr("truncated"));
}

TEST_F(RecordFile, ReportsPartsOutOfOrder) {
  Bytes payload(12);
  std::memcpy(payload.data() + 4, &kRecordMagic, 4);
  write({payload, Bytes(4)});
  const std::uint64_t second_part = 12;
  EXPECT_THAT(read_error(second_part), HasSubstr("cflag 3, expected 0 or 1"));
  // The record's last part now looks like a whole record.
  damage([](Bytes& b) { b[19] = std::byte{0}; });
  EXPECT_THAT(read_error(0), HasSubstr("cflag 0, expected 2 or 3"));
}

TEST_F(RecordFile, RandomDamageNeverCrashes) {
  std::mt19937 random(3);
  std::vector<Bytes> payloads;
  for (int i = 0; i < 20; ++i) payloads.push_back(payload_with_magic(random() % 60, random));
  write(payloads);
  const Bytes whole = read_file(rec_);
  int thrown = 0;
  for (int round = 0; round < 300; ++round) {
    Bytes bytes = whole;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(bytes.size() - random() % 2 * (random() % 30));
    write_file(rec_, bytes);
    const RecordReader reader(rec_);
    try {
      for (const std::uint64_t offset : reader.scan()) (void)reader.read(offset, storage_);
      (void)reader.read(random() % (bytes.size() + 10), storage_);
    } catch (const InputError&) {
      ++thrown;
    }
  }
  EXPECT_GT(thrown, 150);
}

class RecordIndexFile : public RecordFile {
 protected:
  RecordIndexFile() { write({Bytes(8), Bytes(8), Bytes(8)}); }
  RecordIndex read(const std::string& text) {
    write_file(idx_, text);
    return read_record_index(idx_, RecordReader(rec_));
  }
  std::string error(const std::string& text) {
    return message_of<InputError>([&] { read(text); });
  }
};

TEST_F(RecordIndexFile, KeepsTheOrderOfItsLines) {
  const RecordIndex index = read("7\t32\n3\t0\r\n\n5 16");
  EXPECT_EQ(index.keys, (std::vector<std::int64_t>{7, 3, 5}));
  EXPECT_EQ(index.offsets, (std::vector<std::uint64_t>{32, 0, 16}));
}

TEST_F(RecordIndexFile, NamesTheInvalidLine) {
  EXPECT_THAT(error("0\t0\nx\t16\n"), HasSubstr("train.idx: line 2: found 'x\t16', expected: key"));
  EXPECT_THAT(error("0\t0\n1\n"), HasSubstr("line 2"));
  EXPECT_THAT(error("-1\t0\n"), HasSubstr("line 1"));
  EXPECT_THAT(error("0\t0\t5\n"), HasSubstr("line 1"));
  EXPECT_THAT(error("0\t2\n"), HasSubstr("multiple of 4"));
  EXPECT_THAT(error("0\t99999999999999999999999\n"), HasSubstr("expected: key"));
  EXPECT_THAT(error(std::string(20'000, '1')), HasSubstr("longer than 16384 bytes"));
}

TEST_F(RecordIndexFile, ReportsAnOffsetPastTheEnd) {
  const std::string message = error("0\t0\n1\t48\n");
  EXPECT_THAT(message, HasSubstr("train.idx: line 2: found '1\t48', which points past the end of"));
  EXPECT_THAT(message, HasSubstr("train.rec (48 bytes)"));
  EXPECT_THAT(error("0\t18446744073709551612\n"), HasSubstr("past the end"));
}

TEST_F(RecordIndexFile, ReadsLinesAcrossTheEndOfItsBuffer) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + "\t16\n";
  const RecordIndex index = read(text);
  ASSERT_EQ(index.keys.size(), 300'000u);
  for (int i = 0; i < 300'000; ++i) ASSERT_EQ(index.keys[static_cast<std::size_t>(i)], i);
}

TEST_F(RecordIndexFile, RandomBytesNeverCrash) {
  std::mt19937 random(4);
  const std::string kAlphabet = "0123456789\t\n -x\r";
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = kAlphabet[random() % kAlphabet.size()];
    try {
      read(text);
    } catch (const InputError&) {
    }
  }
}

TEST(StoredImage, ReadsTheBeginningOfALongImageFirst) {
  const TemporaryFolder folder;
  write_file(folder / "file", Bytes(1 << 20, std::byte{7}));
  const auto file = std::make_shared<const RegularFile>(folder / "file");
  ImageBuffer buffer;
  StoredImage stored({file, 0, 1 << 20}, {}, buffer);
  EXPECT_EQ(stored.first(8).size(), 8U);
  EXPECT_LE(buffer.stored.size(), 1U << 18);
  EXPECT_EQ(stored.all().size(), 1U << 20);
}

TEST(StoredImage, ReadsNothingIfItsBytesWereReadAhead) {
  const TemporaryFolder folder;
  write_file(folder / "file", Bytes(100, std::byte{7}));
  const auto file = std::make_shared<const RegularFile>(folder / "file");
  std::filesystem::resize_file(folder / "file", 0);
  const Bytes ahead(100, std::byte{8});
  ImageBuffer buffer;
  EXPECT_EQ(StoredImage({file, 0, 100}, ahead, buffer).all().data(), ahead.data());
  EXPECT_THROW(StoredImage({file, 0, 100}, std::span(ahead).first(99), buffer).all(), DamagedImage);
}

}  // namespace
}  // namespace pfc
