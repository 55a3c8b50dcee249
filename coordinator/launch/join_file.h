// What agents join with, in a file for the scripts that start them.
#pragma once

#include <filesystem>
#include <string>

namespace pfc {

/// Has the join string, for this user alone, as long as this object lives. An agent waits for the
/// file (pfc-agent --join-file), so both may be started at once.
class JoinFile {
 public:
  /// Replaces what has this name. Throws StorageError where it cannot be written.
  JoinFile(std::filesystem::path path, const std::string& join_string);
  ~JoinFile();
  JoinFile(const JoinFile&) = delete;
  JoinFile& operator=(const JoinFile&) = delete;

 private:
  const std::filesystem::path path_;
};

}  // namespace pfc
