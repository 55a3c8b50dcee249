// Training sets of precomputed embeddings, for `"network": "none"`.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/layouts/array_file.h"

namespace pfc {

/// Opens the safetensors file options.rec with the tensors `embeddings` [images, D] of float32,
/// float16 or bfloat16, and `labels` [images] of int64 or int32.
std::unique_ptr<Dataset> open_safetensors_embeddings(const DatasetOptions& options);

/// Opens the NumPy file options.rec, [images, D] of float32 or float16, and labels.npy in the same
/// folder, [images] of int64 or int32.
std::unique_ptr<Dataset> open_npy_embeddings(const DatasetOptions& options);

// Both functions return data sets that read a row with pread(2) when it is needed, and convert it
// to float32. Labels are read on opening and stay in memory: 8 bytes each. identities.txt in the
// same folder contains the names. A row that is all zeros or has a number that is not finite is a
// DamagedImage. Both throw InputError that names file, tensor or row, what was found and what was
// expected. More than 2^24 classes are possible, because labels are int64.

}  // namespace pfc
