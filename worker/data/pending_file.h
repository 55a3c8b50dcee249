// A file that appears under its name only once it is whole: written beside, synced, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace pfc {

/// Owns PATH.partial until commit(); destroyed before that, it removes it. One thread. Every
/// failure throws StorageError that names the file and the system's reason.
class PendingFile {
 public:
  /// Creates PATH.partial, and the folder it lies in when that is missing.
  explicit PendingFile(std::filesystem::path path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  [[nodiscard]] std::uint64_t offset() const { return offset_; }  ///< bytes written so far

  /// Syncs and renames. Nothing may be written afterwards.
  void commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<std::FILE, Close> file_;  ///< null once committed
  std::uint64_t offset_ = 0;
};

}  // namespace pfc
