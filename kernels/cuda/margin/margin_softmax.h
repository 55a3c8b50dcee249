// The streaming margin softmax of kernels/margin/margin_softmax.h on a GPU. Everything is enqueued
// on the Ops' compute stream; combine() alone waits. The same bits every time on one kind of GPU:
// sums go in a fixed order, and no float is added atomically.
//
// Per tile of active classes, sized to the second-level cache (margin_plan.h): rows are gathered
// (not where they lie side by side in the products' type), cuBLASLt makes their products with the
// unit embeddings, and one pass folds those into a maximum and a sum a sample. Backward makes or
// keeps the products, turns them into factors in one pass, and after two more products one pass
// moves the rows.
#pragma once

#include <memory>

#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// ops: a GPU's, borrowed, as is the table's memory. Throws InputError for a table of 2^31 rows or
/// more.
std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& options,
                                                        const CentreTable& table);

}  // namespace pfc
