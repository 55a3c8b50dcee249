// Summarises a data set, for users and programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/writing.h"
#include "worker/check/data_check.h"

namespace pfc {

struct DataSummary {
  // Counts over some images, spread over the data set.
  std::int64_t looked_at = 0, damaged = 0, mislabelled = 0;
  std::map<std::string, std::int64_t> formats;  ///< "JPEG"
  std::map<std::string, std::int64_t> sizes;    ///< "112 x 112", height x width
  double bytes_an_image = 0;
  DecodeSpeed decoding;  ///< decoding to the size in training
  // Images per class, counted from all labels. The histogram is empty if the labels were not read.
  std::int64_t least = 0, median = 0, most = 0;
  double mean = 0;
  std::int64_t empty_classes = 0, without_label = 0;
  std::vector<std::int64_t> histogram;  ///< [k]: classes with 2^k .. 2^(k+1) - 1 images
};

/// Summarises the data set. `labels`: whether to read all labels, which for RecordIO means reading
/// the whole file.
DataSummary summarise(const Dataset& dataset, bool labels, const ShowProgress& progress = {});
std::string summary_text(const Dataset& dataset, const DataSummary& summary);
std::string summary_json(const Dataset& dataset, const DataSummary& summary);

}  // namespace pfc
