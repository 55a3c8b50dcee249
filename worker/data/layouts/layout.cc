#include "worker/data/layouts/layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a folder with train.rec, train.idx and property, or a .rec file";

}  // namespace

Location find_layout(const fs::path& rec) {
  if (rec.empty()) throw InputError("rec: not given; expected a folder with train.rec");
  std::error_code ignored;
  if (!fs::is_directory(rec, ignored)) {
    if (something_at(rec)) return {Layout::kRecordIO, rec};  // its reader says what is wrong
    throw InputError(fmt::format("{}: not found; {}", rec.string(), kExpected));
  }
  fs::path train = rec / "train.rec";
  if (something_at(train)) return {Layout::kRecordIO, train};
  std::vector<std::string> others;
  for (const auto& entry : fs::directory_iterator(rec, ignored)) {
    if (entry.path().extension() == ".rec") others.push_back(entry.path().filename().string());
  }
  std::sort(others.begin(), others.end());
  if (others.size() > 5) others.resize(5);
  throw InputError(fmt::format(
      "{}: not found; {}{}", train.string(), kExpected,
      others.empty() ? "" : fmt::format(" (found there: {})", fmt::join(others, ", "))));
}

}  // namespace pfc
