#include "data/open_dataset.h"

#include <stdexcept>

#include "data/layouts/embedding_dataset.h"
#include "data/layouts/file_dataset.h"
#include "data/layouts/layout.h"
#include "data/layouts/lmdb_dataset.h"
#include "data/layouts/synthetic_dataset.h"
#include "data/layouts/tar_dataset.h"
#include "data/records/record_dataset.h"

namespace pfc {

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  const Location found = find_layout(options.rec);
  DatasetOptions there = options;
  there.rec = found.paths.front();
  switch (found.layout) {
    case Layout::kRecordIO:
      return open_record_dataset(found.paths, options);
    case Layout::kList:
      return open_list_dataset(there);
    case Layout::kTsv:
      return open_tsv_dataset(there);
    case Layout::kTar:
      return open_tar_dataset(found.paths, options);
    case Layout::kLmdb:
      return open_lmdb_dataset(there);
    case Layout::kSafetensors:
      return open_safetensors_embeddings(there);
    case Layout::kNpy:
      return open_npy_embeddings(there);
    case Layout::kFolder:
      return open_folder_dataset(there);
    case Layout::kSynthetic:
      return open_synthetic_dataset(there);
  }
  throw std::logic_error("open_dataset: no such layout");
}

}  // namespace pfc
