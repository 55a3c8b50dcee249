#include "data/layouts/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/array_files.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::npy;
using testing::npy_with_header;

class NpyFile : public ::testing::Test {
 protected:
  ArrayInFile open(const std::string& bytes) {
    testing::write_file(file_, bytes);
    return npy_array(file_);
  }
  std::string error(const std::string& bytes) {
    return message_of<InputError>([&] { (void)open(bytes); });
  }
  std::string header_error(const std::string& header) {
    return error(npy_with_header(header, std::string(64, 'x')));
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "a.npy";
  std::string data_ = std::string(24, 'x');
};

TEST_F(NpyFile, ReturnsTypeShapeAndOffset) {
  for (const int version : {1, 2, 3}) {
    const ArrayInFile array = open(npy("<f4", "(3, 2)", data_, version));
    EXPECT_EQ(array.type, ElementType::kFloat32);
    EXPECT_THAT(array.shape, ElementsAre(3, 2));
    EXPECT_EQ(array.offset, std::filesystem::file_size(file_) - data_.size());
    EXPECT_EQ(array.offset % 64, 0u);
  }
}

TEST_F(NpyFile, AcceptsFloatsAndIntegers) {
  EXPECT_EQ(open(npy("<f2", "(12,)", data_)).type, ElementType::kFloat16);
  EXPECT_EQ(open(npy("<i8", "(3,)", data_)).type, ElementType::kInt64);
  EXPECT_EQ(open(npy("<i4", "(6,)", data_)).type, ElementType::kInt32);
}

TEST_F(NpyFile, AcceptsKeysInAnyOrderAndOtherQuotes) {
  const ArrayInFile array = open(npy_with_header(
      "{\"shape\":(2,3),\n\"fortran_order\":False,\"descr\":\"<f4\"}", std::string(24, 'x')));
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
}

TEST_F(NpyFile, RejectsFortranOrder) {
  EXPECT_THAT(header_error("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }"),
              HasSubstr("a.npy: found an array in Fortran order, expected C order"));
}

TEST_F(NpyFile, AcceptsOneDimensionInEitherOrder) {
  EXPECT_THAT(
      open(npy_with_header("{'descr': '<i8', 'fortran_order': True, 'shape': (3,), }", data_))
          .shape,
      ElementsAre(3));
}

TEST_F(NpyFile, RejectsObjectsWhichArePickles) {
  EXPECT_THAT(error(npy("|O", "(3, 2)", data_)),
              HasSubstr("found pickled objects, which are not read, of type '|O'"));
}

TEST_F(NpyFile, RejectsUnsupportedTypes) {
  EXPECT_THAT(error(npy(">f4", "(3, 2)", data_)), HasSubstr("big-endian numbers of type '>f4'"));
  EXPECT_THAT(error(npy("<f8", "(3,)", data_)), HasSubstr("found numbers of type '<f8', expected"));
  EXPECT_THAT(header_error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }"),
              HasSubstr("records of several fields"));
}

TEST_F(NpyFile, ReportsATruncatedFile) {
  EXPECT_THAT(error(npy("<f4", "(3, 3)", data_)),
              HasSubstr("found 24 bytes after the header, expected 36 for [3, 3] of float32"));
}

TEST_F(NpyFile, RejectsShapesWhoseProductOverflows) {
  EXPECT_THAT(error(npy("<f4", "(4611686018427387904, 4)", data_)),
              HasSubstr("expected more than 2^64"));
  EXPECT_THAT(error(npy("<f4", "(18446744073709551616,)", data_)), HasSubstr("in the header"));
  EXPECT_THAT(error(npy("<f4", "(-1,)", data_)), HasSubstr("expected a number from 0"));
}

TEST_F(NpyFile, RejectsAHeaderThatIsTooLong) {
  std::string file = npy("<f4", "(3, 2)", data_, 2);
  file.replace(8, 4, "\xff\xff\xff\x7f", 4);
  EXPECT_THAT(error(file), HasSubstr("found a header of 2147483647 bytes, expected at most 65536"));
}

TEST_F(NpyFile, ReportsAHeaderThatIsTruncated) {
  const std::string file = npy("<f4", "(3, 2)", data_);
  EXPECT_THAT(error(file.substr(0, 40)),
              AllOf(HasSubstr("found 40 bytes, but its header ends at byte "),
                    HasSubstr("the file is truncated; copy it again")));
}

TEST_F(NpyFile, RejectsFilesInOtherFormats) {
  EXPECT_THAT(error(""), HasSubstr("at its beginning, expected NumPy's \\x93NUMPY"));
  EXPECT_THAT(error("PK\x03\x04 a zip, as numpy.savez() writes it"), HasSubstr("found 'PK"));
  std::string file = npy("<f4", "(3, 2)", data_);
  file[6] = 4;
  EXPECT_THAT(error(file), HasSubstr("found version 4 of the format"));
}

TEST_F(NpyFile, RejectsHeadersThatAreNotADictionary) {
  for (const char* header :
       {"", "{", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} import os",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 3)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'other': False, 'shape': (3,)}"}) {
    EXPECT_THAT(header_error(header), HasSubstr("a.npy: found ")) << header;
  }
}

TEST(SafetensorsArray, ReturnsATensorsOffsetAndRejectsUnsupportedTypes) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  testing::write_file(path, testing::safetensors({{"odd", "U8", "[3]", "abc"},
                                                  {"embeddings", "BF16", "[1,2]", "wxyz"},
                                                  {"labels", "U8", "[1]", "l"}}));
  const SafetensorsFile file(path, SafetensorsFile::Unaligned::kKeep);
  const ArrayInFile array = safetensors_array(file, "embeddings");
  EXPECT_EQ(array.type, ElementType::kBFloat16);
  EXPECT_EQ(array.offset, std::filesystem::file_size(path) - 5);
  EXPECT_THAT(message_of<InputError>([&] { (void)safetensors_array(file, "labels"); }),
              HasSubstr("a.safetensors: tensor 'labels': found U8, expected"));
}

}  // namespace
}  // namespace pfc
