// Which layout a data set has, by what lies at a path.
#pragma once

#include <filesystem>

namespace pfc {

enum class Layout { kRecordIO };

struct Location {
  Layout layout = Layout::kRecordIO;
  std::filesystem::path path;  ///< what the reader of that layout opens
};

/// A folder with train.rec, and a file of any other name, are RecordIO. Throws InputError that says
/// what is there where that is no data set.
Location find_layout(const std::filesystem::path& rec);

}  // namespace pfc
