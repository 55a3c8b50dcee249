// Where the values of a job come from: its file, or --set on a command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pfc {

/// Where a job's values were written, for error messages. A file name alone converts to it.
struct JobOrigin {
  JobOrigin(std::string file_name, std::vector<std::string> set = {})
      : file(std::move(file_name)), overrides(std::move(set)) {}
  JobOrigin(const char* file_name) : JobOrigin(std::string(file_name)) {}

  /// "--set lr=0.2" where an override has set the key, else the file. `key` may have dots.
  [[nodiscard]] std::string of(const std::string& key) const;

  std::string file;
  std::vector<std::string> overrides;  ///< "key=value", in the order in which they were applied
};

}  // namespace pfc
