// Writes findings as JSON lines.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/clean/finder.h"

namespace pfc {

/// The embeddings to clean, followed by those of the test set, if there is one.
struct OpenedEmbeddings {
  std::unique_ptr<Dataset> dataset;
  std::vector<std::filesystem::path> files;  ///< path_of_names() may name their images
  std::int64_t first_test_image = 0;
  std::int64_t first_test_identity = 0;
};

/// Returns whether an image has the name that a finding gives it. The data set at `path` may have
/// moved since, so only the part of the name after the path is compared.
bool has_name(const Dataset& dataset, const std::filesystem::path& path, std::int64_t image,
              const std::string& name);

/// Throws InputError if the file exists and does not have one line for each of the images.
void expect_names(const std::filesystem::path& names, std::int64_t images);

/// Writes the findings in this order. Throws like expect_names(), and StorageError.
void write_findings(BufferedFile& out, const std::vector<Finding>& findings,
                    const OpenedEmbeddings& of);

}  // namespace pfc
