// A file of pages that is the base of checkpoints. Taking a checkpoint copies no pages: the file
// stays in use, and an UndoLog keeps the old content of each page that changes afterwards.
//
//   FOLDER/NAME.pages             the pages; the process that changes them holds a lock (flock)
//   FOLDER/NAME.json              their checkpoints, oldest first
//   FOLDER/NAME.undo-CHECKPOINT   pages that changed between this checkpoint and the next one
//
// At checkpoint i a page had the content in the first of the logs i, i + 1, ... that has it. If
// none has it, the page in the file has not changed since. So the logs of older checkpoints than
// those in use may be deleted. A page is written to the file only after its old content is durable
// in the newest log. So every checkpoint stays readable, wherever the process or the machine fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/files/regular_file.h"
#include "worker/head/paging/page_file.h"
#include "worker/head/paging/undo_log.h"

namespace pfc {

/// The names of a file of pages and of the files beside it.
struct KeptName {
  std::filesystem::path folder;
  std::string name;
  [[nodiscard]] std::filesystem::path pages() const { return folder / (name + ".pages"); }
  [[nodiscard]] std::filesystem::path list() const { return folder / (name + ".json"); }
  [[nodiscard]] std::filesystem::path log(const std::string& checkpoint) const {
    return folder / (name + kLog + checkpoint);
  }
  static constexpr const char* kLog = ".undo-";
};

/// How long to wait for a lock: an earlier worker of the job may still be ending.
inline constexpr std::chrono::milliseconds kLockPatience{45'000};

class KeptPages : public PageFile {
 public:
  /// Creates the file, and its folder if it is missing. The pages have zeros. Throws as
  /// OpenPages::reserve() does, and StorageError if the file exists. The destructor deletes a file
  /// that never had a checkpoint.
  static std::unique_ptr<KeptPages> create(KeptName name, std::uint64_t bytes);
  /// Opens an existing file, and gives its pages the content that they had at a checkpoint. Later
  /// checkpoints are lost, earlier ones stay. If this is interrupted, it can be repeated. Throws
  /// CommError if another process still has it, InputError that names the file if one is missing or
  /// damaged, and StorageError.
  static std::unique_ptr<KeptPages> take_over(KeptName name, const std::string& checkpoint,
                                              std::uint64_t bytes,
                                              std::chrono::milliseconds patience = kLockPatience);
  /// Returns the checkpoints of the pages, oldest first. Throws InputError.
  static std::vector<std::string> checkpoints_of(const KeptName& name);
  ~KeptPages() override;

  /// Thread-safe for different pages. write() first adds the old content of the pages to the newest
  /// log, if it does not have it.
  void read(std::uint64_t offset, std::span<std::byte> to) override { base_.read(offset, to); }
  void write(std::uint64_t offset, std::span<const std::byte> from) override;

  /// Makes the pages as they are now the content of a new checkpoint, durably. Throws StorageError,
  /// also if the file was removed or replaced. Then earlier checkpoints stay readable, because this
  /// and write() throw from then on. REQUIRES: no write() at the same time.
  void add_checkpoint(const std::string& checkpoint);

 private:
  KeptPages(KeptName name, Fd fd, std::uint64_t bytes);
  void roll_back(const std::string& checkpoint);
  void expect_in_place() const;
  void expect_whole() const;
  void begin_log();
  void save_list() const;
  void log_old_content(std::uint64_t offset, std::size_t count);

  const KeptName name_;
  const std::uint64_t bytes_;
  OpenPages base_;
  std::vector<std::string> checkpoints_;  // oldest first; the last one's log is log_
  std::unique_ptr<UndoLog> log_;          // null before the first checkpoint
  bool broken_ = false;                   // a call of add_checkpoint() has failed
  bool unused_ = false;                   // created, and never had a checkpoint
  std::mutex mutex_;
  std::vector<bool> logged_;  // pages that log_ has; guarded by mutex_
};

/// Reads the pages of a checkpoint while no process changes the file: it holds a shared lock.
class PagesOfCheckpoint {
 public:
  /// Reads and verifies the logs. Throws InputError that names the file if one is missing or
  /// damaged, and CommError if another process still changes the pages.
  PagesOfCheckpoint(const KeptName& name, const std::string& checkpoint,
                    std::chrono::milliseconds patience = kLockPatience);
  /// Throws as the constructor does if a file is missing. Does not lock and read the logs.
  static void expect_there(const KeptName& name, const std::string& checkpoint);

  /// Reads bytes of any alignment. Thread-safe. Throws InputError.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  /// The content of a page in a log.
  struct Old {
    std::uint32_t page = 0;
    std::uint32_t log = 0;  // index into logs_
    std::uint64_t offset = 0;
  };
  RegularFile base_;  // its size is a multiple of kPageBytes
  std::vector<RegularFile> logs_;
  std::vector<Old> old_;  // sorted by page; each page once
};

}  // namespace pfc
