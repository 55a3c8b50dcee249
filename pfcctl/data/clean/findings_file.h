// Writes findings as JSON lines.
#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/clean/finding.h"

namespace pfc {

/// Embeddings of one file or of two, one after the other, and where their names are.
struct NamedEmbeddings {
  const Dataset& dataset;
  /// Labels of the second file begin here.
  std::int64_t first_test_identity = 0;
  /// Images of the second file begin here.
  std::int64_t first_test_image = 0;
  std::vector<std::filesystem::path> files;  ///< of embeddings; F.names.txt beside may name images
};

/// Writes the findings in this order. Throws InputError if a file of names has not one line for
/// each embedding, and StorageError.
void write_findings(BufferedFile& out, const std::vector<Finding>& findings,
                    const NamedEmbeddings& of);

/// Returns F.names.txt, which names the images of the embeddings in the file F.
std::filesystem::path path_of_names(std::filesystem::path embeddings);

/// Returns "wrong_label", and so on.
const char* name_of(FindingKind kind);

}  // namespace pfc
