#include "worker/tensorboard/summaries.h"

#include <gtest/gtest.h>

#include <vector>

namespace pfc {
namespace {

TEST(TagOf, IsTheGroupAndTheName) {
  EXPECT_EQ(tag_of("verification", "cfp_fp"), "verification/cfp_fp");
}

TEST(TagOf, ReplacesBytesThatAMessageCannotContain) {
  EXPECT_EQ(tag_of("verification", "b\xfcro set/1"), "verification/b_ro_set_1");
}

TEST(AddScalar, WritesANumberThatOldReadersAccept) {
  tensorboard::Summary summary;
  add_scalar(summary, "train/loss", 2.5);
  EXPECT_EQ(summary.value(0).tag(), "train/loss");
  EXPECT_EQ(summary.value(0).simple_value(), 2.5f);
}

TEST(AddHistogram, WritesATensorOfLeftRightAndCount) {
  tensorboard::Summary summary;
  add_histogram(summary, "embeddings/length", std::vector<HistogramBucket>{{0, 1, 5}, {1, 2, 7}});
  const tensorboard::Summary::Value& value = summary.value(0);
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "histograms");
  EXPECT_EQ(value.metadata().data_class(), tensorboard::DATA_CLASS_TENSOR);
  EXPECT_EQ(value.tensor().dtype(), tensorboard::DT_DOUBLE);
  EXPECT_EQ(value.tensor().tensor_shape().dim(0).size(), 2);
  EXPECT_EQ(value.tensor().tensor_shape().dim(1).size(), 3);
  const auto& numbers = value.tensor().double_val();
  EXPECT_EQ(std::vector<double>(numbers.begin(), numbers.end()),
            (std::vector<double>{0, 1, 5, 1, 2, 7}));
}

TEST(AddImages, WritesWidthHeightAndTheBytesOfEachImageFile) {
  tensorboard::Summary summary;
  add_images(summary, "batch/images", 96, 112,
             std::vector<std::vector<std::byte>>{{std::byte{1}}, {std::byte{0}, std::byte{2}}});
  const tensorboard::Summary::Value& value = summary.value(0);
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "images");
  EXPECT_EQ(value.metadata().data_class(), tensorboard::DATA_CLASS_BLOB_SEQUENCE);
  EXPECT_EQ(value.tensor().dtype(), tensorboard::DT_STRING);
  EXPECT_EQ(value.tensor().tensor_shape().dim(0).size(), 4);
  const auto& texts = value.tensor().string_val();
  EXPECT_EQ(std::vector<std::string>(texts.begin(), texts.end()),
            (std::vector<std::string>{"96", "112", "\x01", std::string("\0\x02", 2)}));
}

}  // namespace
}  // namespace pfc
