// Training sets of embeddings that a network has made before, for `"network": "none"`.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/layouts/array_file.h"

namespace pfc {

/// A safetensors file, options.rec, with the tensors `embeddings` [images, D] of float32, float16
/// or bfloat16, and `labels` [images] of int64 or int32.
std::unique_ptr<Dataset> open_safetensors_embeddings(const DatasetOptions& options);

/// The file options.rec, NumPy's [images, D] of float32 or float16, and labels.npy beside it,
/// [images] of int64 or int32.
std::unique_ptr<Dataset> open_npy_embeddings(const DatasetOptions& options);

// Both read a row with pread(2) when it is asked for, and give it as float32. Opening reads the
// labels, which stay in memory: 8 bytes each. identities.txt beside the file names its
// people. A row that is all zeros, or with a number that is not finite, is a DamagedImage. Both
// throw InputError that names file, tensor or row, what was found and what was expected. More than
// 2^24 classes are fine: labels are int64.

}  // namespace pfc
