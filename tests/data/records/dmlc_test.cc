// Tests that this project and dmlc-core, which defined RecordIO, read each other's files.
#include <dmlc/memory_io.h>
#include <dmlc/recordio.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "data/records/record_format.h"
#include "data/records/record_index.h"
#include "data/records/record_reader.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

/// Records of random length, many of which contain the magic word at various offsets.
std::vector<std::string> random_records() {
  std::mt19937 random(17);
  std::vector<std::string> records;
  for (int i = 0; i < 2000; ++i) {
    std::string record(random() % 300, '\0');
    for (char& c : record) c = static_cast<char>(random());
    for (unsigned k = random() % 4; k > 0 && record.size() > 4; --k) {
      std::size_t at = random() % (record.size() - 3);
      if (random() % 2 == 0) at -= at % 4;
      std::memcpy(record.data() + at, &kRecordMagic, 4);
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class WithDmlc : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path rec_ = folder_ / "train.rec", idx_ = folder_ / "train.idx";
};

TEST_F(WithDmlc, DmlcReadsFilesOfPfc) {
  const std::vector<std::string> records = random_records();
  RecordWriter writer(rec_, idx_);
  for (std::size_t i = 0; i < records.size(); ++i) {
    writer.append(static_cast<std::int64_t>(i), bytes_of(records[i]));
  }
  writer.close();
  const auto file = testing::read_file(rec_);
  std::string content(reinterpret_cast<const char*>(file.data()), file.size());
  dmlc::MemoryStringStream stream(&content);
  dmlc::RecordIOReader reader(&stream);
  std::string record;
  for (const std::string& expected : records) {
    ASSERT_TRUE(reader.NextRecord(&record));
    ASSERT_EQ(record, expected);
  }
  EXPECT_FALSE(reader.NextRecord(&record));
}

TEST_F(WithDmlc, PfcReadsFilesOfDmlc) {
  const std::vector<std::string> records = random_records();
  std::string content;
  {
    dmlc::MemoryStringStream stream(&content);
    dmlc::RecordIOWriter writer(&stream);
    for (const std::string& record : records) writer.WriteRecord(record);
  }
  testing::write_file(rec_, content);
  const RecordReader reader(rec_);
  const RecordIndex index = scan_records(reader);
  ASSERT_EQ(index.offsets.size(), records.size());
  ImageBuffer storage;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto payload = reader.read(index.offsets[i], storage);
    ASSERT_EQ(std::string(reinterpret_cast<const char*>(payload.data()), payload.size()),
              records[i]);
  }
  // Both libraries must write the same bytes.
  RecordWriter writer(folder_ / "ours.rec", folder_ / "ours.idx");
  for (std::size_t i = 0; i < records.size(); ++i) {
    writer.append(static_cast<std::int64_t>(i), bytes_of(records[i]));
  }
  writer.close();
  const auto ours = testing::read_file(folder_ / "ours.rec");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(ours.data()), ours.size()), content);
}

}  // namespace
}  // namespace pfc
