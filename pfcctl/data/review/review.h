// pfcctl data review: writes a web page on which a person decides about findings
// (docs/cleaning.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pfc {

struct ReviewOptions {
  std::filesystem::path findings = "findings.jsonl";
  std::filesystem::path in;       ///< the data set whose embeddings were cleaned
  std::filesystem::path against;  ///< the test set; empty: its images are not shown
  std::filesystem::path output = "review.html";
  std::int64_t limit = 5000;  ///< maximum number of findings on the page
};

/// Writes the page to options.output. The file appears when it is complete. An identity is shown by
/// its first images that no finding would change. Returns a summary for the terminal. Throws
/// InputError that names a file and its line, also if a data set is not the one of the findings;
/// and StorageError.
std::string write_review(const ReviewOptions& options);

}  // namespace pfc
