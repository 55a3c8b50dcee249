// A log of the content that pages had at a checkpoint. A page is added before it is changed in its
// file for the first time after the checkpoint, so the log restores the pages of the checkpoint.
//
// The file is a sequence of groups: a page with the page numbers and a checksum (CRC-32C), then as
// many images of pages. Groups are written one after the other, each after the previous one is
// durable. So only the last group may be incomplete, if the process or the machine has failed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "worker/head/paging/page_file.h"

namespace pfc {

/// Memory for pages, aligned for O_DIRECT. Not initialised.
class PageBuffer {
 public:
  explicit PageBuffer(std::size_t pages);
  [[nodiscard]] std::byte* page(std::size_t i) const { return bytes_.get() + i * kPageBytes; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

struct PageImage {
  std::uint32_t page = 0;            ///< number of the page in its file
  const std::byte* bytes = nullptr;  ///< kPageBytes, borrowed
};

class UndoLog {
 public:
  /// Pages of a group, and of one call of add(), at most.
  static constexpr std::size_t kMostPages = 1018;

  /// Creates the file, or deletes the content of an existing one. Throws StorageError.
  explicit UndoLog(const std::filesystem::path& path);
  /// Adds the images, and blocks until they are durable. Calls of several threads share a write.
  /// Throws StorageError, also if an earlier call has failed: the last group is then incomplete.
  void add(std::span<const PageImage> images);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Group {
    std::vector<std::uint32_t> pages;
    PageBuffer bytes{1 + kMostPages};  // room for the numbers, then the images
  };
  void advance(Lock& lock);
  void write(Group& group);

  OpenPages file_;
  const std::uint32_t name_;  // CRC-32C of the file's name
  std::uint64_t end_ = 0;     // of the file; only the thread that writes uses it
  Group out_;                 // being written; only the thread that writes uses it
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  Group next_;                 // being filled
  std::uint64_t written_ = 0;  // groups that are durable
  bool writing_ = false;       // a thread writes out_
  std::exception_ptr error_;
};

/// Calls f for each image of the log, in order, with the offset of its bytes in the file. Throws
/// InputError that names the file if it is missing or damaged, or has a page that is not among the
/// first `pages` ones. `in_use`: pages may have been added when the process ended. Then an invalid
/// last group is ignored, as its pages have not been changed if it is incomplete.
void read_undo_log(const std::filesystem::path& path, bool in_use, std::uint64_t pages,
                   const std::function<void(const PageImage& image, std::uint64_t offset)>& f);

}  // namespace pfc
