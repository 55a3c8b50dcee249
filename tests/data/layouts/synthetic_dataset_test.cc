#include "data/layouts/synthetic_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

TEST(SyntheticDataset, HasRandomImagesAndLabels) {
  const auto data = open_dataset({.rec = "synthetic", .num_classes = 1000, .num_image = 5000});
  EXPECT_EQ(data->info().images, 5000);
  EXPECT_EQ(data->info().classes, 1000);
  ImageBuffer storage;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 5000; ++i) labels.push_back(data->label(i, storage));
  EXPECT_GE(*std::ranges::min_element(labels), 0);
  EXPECT_LT(*std::ranges::max_element(labels), 1000);
  EXPECT_EQ(data->read(17, storage).label, labels[17]);
  std::ranges::sort(labels);
  const auto repeated = std::ranges::unique(labels);
  EXPECT_GT(repeated.begin() - labels.begin(), 950)
      << "5,000 random labels miss 7 of 1,000 classes";

  ImageDecoder decoder;
  std::vector<std::uint8_t> first, second;
  EXPECT_EQ(decoder.decode_whole(data->read(0, storage).encoded, first), (ImageSize{112, 112}));
  decoder.decode_whole(data->read(1, storage).encoded, second);
  EXPECT_NE(first, second);
}

TEST(SyntheticDataset, RequiresTheNumbersOfImagesAndClasses) {
  EXPECT_THAT(testing::message_of<InputError>(
                  [] { open_dataset({.rec = "synthetic", .num_classes = 10}); }),
              ::testing::HasSubstr("needs num_image in the job"));
}

}  // namespace
}  // namespace pfc
