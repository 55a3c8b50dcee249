// Counts the reads of a loader, and the seeks between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/reading/async_reader.h"

namespace pfc::testing {

/// The reads in the order of their start. Shared by the test and the loader's threads.
class ReadLog {
 public:
  struct Entry {
    int fd = -1;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  void add(const FileRead& read) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({read.fd, read.offset, read.to.size()});
  }
  [[nodiscard]] std::vector<Entry> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Entry& entry : entries()) sum += entry.bytes;
    return sum;
  }
  /// Returns the number of reads that do not start where the previous one ended, including the
  /// first.
  [[nodiscard]] std::size_t seeks() const {
    std::size_t count = 0;
    Entry before;
    for (const Entry& entry : entries()) {
      count += entry.fd != before.fd || entry.offset != before.offset + before.bytes;
      before = entry;
    }
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
};

class CountingReader final : public AsyncReader {
 public:
  CountingReader(ReadLog& log, std::unique_ptr<AsyncReader> reader)
      : log_(log), reader_(std::move(reader)) {}
  [[nodiscard]] int depth() const override { return reader_->depth(); }
  [[nodiscard]] int under_way() const override { return reader_->under_way(); }
  void start(FileRead& read) override {
    log_.add(read);
    reader_->start(read);
  }
  FileRead& finish() override { return reader_->finish(); }

 private:
  ReadLog& log_;
  const std::unique_ptr<AsyncReader> reader_;
};

}  // namespace pfc::testing
