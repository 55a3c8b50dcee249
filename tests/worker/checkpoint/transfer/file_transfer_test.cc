#include "worker/checkpoint/transfer/file_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <vector>

#include "common/error.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/checkpoint/two_hosts.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

class FileTransfer : public ::testing::Test {
 protected:
  /// Returns bytes that differ between ranks and positions.
  static std::vector<std::byte> content(int rank, std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      all[i] = static_cast<std::byte>((i * 31 + i / 65'536 + static_cast<std::size_t>(rank)) % 251);
    }
    return all;
  }
  [[nodiscard]] std::filesystem::path file(int rank) const {
    return folder_ / ("of-" + std::to_string(rank));
  }
  [[nodiscard]] std::vector<WrittenFile> receive(const OutputLinks& links) const {
    std::vector<Incoming> incoming;
    for (const OutputLink& link : links.remote) incoming.push_back({&link, file(link.rank)});
    return receive_files(incoming, links.host);
  }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(folder_.path()); }

  const TemporaryFolder folder_;
  const testing::TwoHosts hosts_{3, 1};
};

TEST_F(FileTransfer, WritesTheBytesOfEachWorkerAndTheirChecksums) {
  // One piece and a few bytes; and several pieces, the last one full.
  const std::map<int, std::size_t> sizes{{1, kPieceBytes + 7}, {2, 3 * kPieceBytes}};
  std::vector<WrittenFile> written;
  on_threads(3, [&](int rank) {
    const OutputLinks links = hosts_.links(rank);
    if (rank == 0) return void(written = receive(links));
    const std::vector<std::byte> all = content(rank, sizes.at(rank));
    send_file(*links.to_rank_zero, [&](const ByteSink& sink) {
      sink(std::span(all).first(8));
      sink(std::span(all).subspan(8));
    });
    EXPECT_TRUE(std::filesystem::exists(file(rank))) << "it is on disk when send_file() returns";
  });
  for (const auto& [rank, size] : sizes) {
    const std::vector<std::byte> all = content(rank, size);
    EXPECT_EQ(testing::read_file(file(rank)), all) << rank;
    EXPECT_EQ(written[static_cast<std::size_t>(rank - 1)].bytes, size);
    EXPECT_EQ(written[static_cast<std::size_t>(rank - 1)].sha256, sha256_hex(all));
  }
}

TEST_F(FileTransfer, CreatesAnEmptyFileIfNothingIsSent) {
  on_threads(3, [&](int rank) {
    const OutputLinks links = hosts_.links(rank);
    if (rank == 0) return void(receive(links));
    send_file(*links.to_rank_zero, [](const ByteSink&) {});
  });
  EXPECT_EQ(std::filesystem::file_size(file(2)), 0U);
}

TEST_F(FileTransfer, FailsOnAllWorkersInTheSameWordsIfTheDiskIsFull) {
  std::vector<std::string> errors(3);
  const FileSizeLimit limit(kPieceBytes + 1);
  on_threads(3, [&](int rank) {
    const OutputLinks links = hosts_.links(rank);
    errors[static_cast<std::size_t>(rank)] = message_of<StorageError>([&] {
      if (rank == 0) return void(receive(links));
      const std::vector<std::byte> all = content(rank, 3 * kPieceBytes);
      send_file(*links.to_rank_zero, [&](const ByteSink& sink) { sink(all); });
    });
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("host a: "), HasSubstr(file(1).string()),
                               HasSubstr("cannot write after 4194305 bytes: ")));
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_EQ(errors[2], errors[0]);
  EXPECT_TRUE(is_empty()) << "an incomplete file was left";
}

TEST_F(FileTransfer, NamesTheLostWorkerAndItsHost) {
  std::string error;
  on_threads(3, [&](int rank) {
    const OutputLinks links = hosts_.links(rank);
    if (rank == 0) {
      error = message_of<CommError>([&] { (void)receive(links); });
      hosts_.lose(2);  // rank 0 joins again, so the other transfer ends
      return;
    }
    const std::vector<std::byte> all = content(rank, 2 * kPieceBytes);
    try {
      send_file(*links.to_rank_zero, [&](const ByteSink& sink) {
        sink(std::span(all).first(kPieceBytes));
        if (rank == 1) hosts_.lose(1);
        sink(std::span(all).subspan(kPieceBytes));
      });
      ADD_FAILURE() << "rank " << rank << " did not notice that it lost rank 0";
    } catch (const CommError&) {
    }
  });
  EXPECT_THAT(error, AllOf(HasSubstr("from rank 1 on host b"), HasSubstr(file(1).string())));
  EXPECT_TRUE(is_empty()) << "an incomplete file was left";
}

}  // namespace
}  // namespace pfc
