#include "data/reading/async_reader.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <vector>

#include "common/files/regular_file.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

class AsyncReaderOf : public ::testing::TestWithParam<ReadMethod> {
 protected:
  AsyncReaderOf() : path_(folder_.path() / "file") {
    for (std::size_t i = 0; i < 100'000; ++i) bytes_.push_back(static_cast<char>(i * i >> 7));
    std::ofstream(path_, std::ios::binary).write(bytes_.data(), std::ssize(bytes_));
    file_ = std::make_unique<RegularFile>(path_);
  }
  std::unique_ptr<AsyncReader> reader(int depth) {
    auto made = make_async_reader(depth, GetParam());
    // Containers often forbid io_uring. The test then uses the other method.
    if (made == nullptr) std::printf("the kernel refuses io_uring: threads instead\n");
    return made != nullptr ? std::move(made) : make_async_reader(depth, ReadMethod::kThreads);
  }
  FileRead read_of(std::uint64_t offset, std::span<std::byte> to) const {
    return {.fd = file_->fd(), .offset = offset, .to = to};
  }
  [[nodiscard]] std::span<const std::byte> expected(std::size_t offset, std::size_t size) const {
    return std::as_bytes(std::span(bytes_)).subspan(offset, size);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_;
  std::vector<char> bytes_;
  std::unique_ptr<RegularFile> file_;
};

TEST_P(AsyncReaderOf, ReadsManyPiecesConcurrently) {
  constexpr std::size_t kPieces = 100, kSize = 997;
  std::vector<std::byte> memory(kPieces * kSize);
  std::deque<FileRead> reads;
  const auto reader = this->reader(7);
  std::size_t finished = 0;
  const auto finish = [&] {
    const FileRead& read = reader->finish();
    EXPECT_EQ(read.got, kSize);
    EXPECT_TRUE(std::ranges::equal(read.to, expected(read.offset, kSize)));
    ++finished;
  };
  for (std::size_t i = 0; i < kPieces; ++i) {
    if (reader->under_way() == reader->depth()) finish();
    reads.push_back(
        read_of((i * 37 % kPieces) * kSize, std::span(memory).subspan(i * kSize, kSize)));
    reader->start(reads.back());
  }
  while (reader->under_way() > 0) finish();
  EXPECT_EQ(finished, kPieces);
}

TEST_P(AsyncReaderOf, ReportsTheEndOfTheFile) {
  std::vector<std::byte> memory(1000);
  FileRead over_the_end = read_of(99'900, memory);
  const auto reader = this->reader(2);
  reader->start(over_the_end);
  EXPECT_EQ(&reader->finish(), &over_the_end);
  EXPECT_EQ(over_the_end.got, 100u);
  EXPECT_TRUE(std::ranges::equal(over_the_end.to.first(100), expected(99'900, 100)));
}

TEST_P(AsyncReaderOf, ReturnsNoBytesOfAFileThatCannotBeRead) {
  std::vector<std::byte> memory(10);
  FileRead read{.fd = 1 << 20, .offset = 0, .to = memory};
  const auto reader = this->reader(2);
  reader->start(read);
  EXPECT_EQ(reader->finish().got, 0u);
}

TEST_P(AsyncReaderOf, CanBeDestroyedWithReadsInProgress) {
  std::vector<std::byte> memory(8 * 10'000);
  std::deque<FileRead> reads;
  const auto reader = this->reader(8);
  for (std::size_t i = 0; i < 8; ++i) {
    reads.push_back(read_of(i * 10'000, std::span(memory).subspan(i * 10'000, 10'000)));
    reader->start(reads.back());
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, AsyncReaderOf,
                         ::testing::Values(ReadMethod::kRing, ReadMethod::kThreads),
                         [](const auto& method) {
                           return method.param == ReadMethod::kRing ? "Ring" : "Threads";
                         });

TEST(AsyncReader, UsesThreadsIfThereIsNoIoUring) {
  EXPECT_NE(make_async_reader(4, ReadMethod::kAuto), nullptr);
}

}  // namespace
}  // namespace pfc
