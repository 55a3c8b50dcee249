// Source of a job's values: its file, or --set on the command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pfc {

/// Names the source of a value in error messages. Converts implicitly from a file name.
struct JobOrigin {
  JobOrigin(std::string file_name, std::vector<std::string> set = {})
      : file(std::move(file_name)), overrides(std::move(set)) {}
  JobOrigin(const char* file_name) : JobOrigin(std::string(file_name)) {}

  /// Returns "--set lr=0.2" if an override set the key, else the file. `key` may have dots.
  [[nodiscard]] std::string of(const std::string& key) const;

  std::string file;
  std::vector<std::string> overrides;  ///< "key=value", in the order of application
};

}  // namespace pfc
