#include "model/files/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/error.h"
#include "model/files/weights_file.h"
#include "tests/support/array_files.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_files.h"

namespace pfc {
namespace {

using namespace testing;  // NOLINT: the writers of test files
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSix = bytes_of_numbers<float>({0, 1, 2, 3, 4, 5});
const PickledTensor kMatrix{.elements = 6, .size = {2, 3}, .stride = {3, 1}};

class TorchFiles : public ::testing::Test {
 protected:
  TorchFile read(const std::string& bytes) {
    write_file(folder_ / "model.pt", bytes);
    return read_torch_file(folder_ / "model.pt");
  }
  TorchFile read_value(const std::string& value) {
    return read(zip_of(torch_members(value, {kSix})));
  }
  std::string error(const std::string& bytes) {
    return message_of<InputError>([&] { read(bytes); });
  }
  std::string error_of_value(const std::string& value) {
    return error(zip_of(torch_members(value, {kSix})));
  }
  /// Returns the elements of the tensor with this description.
  std::vector<float> elements(const PickledTensor& tensor) {
    const TorchFile file = read_value(pickled_dict({{"x", pickled(tensor)}}));
    const auto values = file.tensors.float32("x", tensor.size);
    return {values.begin(), values.end()};
  }

  TemporaryFolder folder_;
};

TEST_F(TorchFiles, TensorsAreReadByTheirStrides) {
  EXPECT_THAT(elements(kMatrix), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(elements({.elements = 6, .offset = 2, .size = {2}, .stride = {1}}),
              ElementsAre(2, 3));
  EXPECT_THAT(elements({.elements = 6, .size = {3, 2}, .stride = {1, 3}}),
              ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(elements({.elements = 6, .offset = 1, .size = {2, 2}, .stride = {0, 2}}),
              ElementsAre(1, 3, 1, 3));
  EXPECT_THAT(elements({.elements = 6, .offset = 5, .size = {}, .stride = {}}), ElementsAre(5));
  EXPECT_THAT(elements({.elements = 6, .size = {0, 3}, .stride = {3, 1}}), ElementsAre());
}

TEST_F(TorchFiles, JoinTheKeysOfNestedDictsWithSlashes) {
  const TorchFile file = read_value(pickled_dict(
      {{"epoch", pickled_number(3)},
       {"state", pickled_dict({{"b", pickled(kMatrix)}, {"a", pickled(kMatrix)}})},
       {"list", "](" + pickled_number(4) + "\x88" + "e"},
       {"callbacks", pickled_call("os\nsystem", pickled_tuple({pickled_text("true")}))}}));
  EXPECT_THAT(file.order, ElementsAre("state/b", "state/a"));
  EXPECT_EQ(file.numbers,
            (std::map<std::string, std::int64_t>{{"epoch", 3}, {"list/0", 4}, {"list/1", 1}}));
  EXPECT_EQ(file.opaque.at("callbacks"), "os.system");
}

TEST_F(TorchFiles, ContiguousTensorsAreNotCopied) {
  const TorchFile file =
      read_value(pickled_dict({{"a", pickled(kMatrix)}, {"b", pickled(kMatrix)}}));
  EXPECT_EQ(file.tensors.at("a").bytes.data(), file.tensors.at("b").bytes.data());
}

TEST_F(TorchFiles, ReadZip64Files) {
  EXPECT_TRUE(read(zip_of(torch_members(pickled_dict({{"x", pickled(kMatrix)}}), {kSix}), true))
                  .tensors.tensors()
                  .contains("x"));
}

TEST_F(TorchFiles, RejectATensorOutsideItsStorage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const PickledTensor& wrong :
       std::vector<PickledTensor>{{.elements = 6, .size = {7}, .stride = {1}},
                                  {.elements = 6, .offset = 5, .size = {2}, .stride = {1}},
                                  {.elements = 6, .size = {2, 2}, .stride = {5, 1}},
                                  {.elements = 6, .size = {3}, .stride = {kHuge}},
                                  {.elements = 6, .offset = kHuge, .size = {2}, .stride = {kHuge}},
                                  {.elements = 6, .size = {kHuge, kHuge}, .stride = {0, 0}},
                                  {.elements = 6, .size = {2}, .stride = {}}}) {
    EXPECT_THAT(error_of_value(pickled_dict({{"x", pickled(wrong)}})),
                AllOf(HasSubstr("tensor 'x'"), HasSubstr("reach outside its storage of 6")));
  }
  EXPECT_THAT(error_of_value(pickled({.elements = 7, .size = {7}, .stride = {1}})),
              HasSubstr("its storage has 24 bytes, expected 7 numbers of 4 bytes"));
  EXPECT_THAT(error_of_value(pickled({.elements = 6, .size = {-1}, .stride = {1}})),
              HasSubstr("its size is not a number"));
  EXPECT_THAT(
      error_of_value(pickled({.type = "FloatTensor", .elements = 6, .size = {6}, .stride = {1}})),
      HasSubstr("its storage has an unknown type"));
  EXPECT_THAT(error_of_value(pickled({.key = "9", .elements = 6, .size = {6}, .stride = {1}})),
              HasSubstr("has no member 'model/data/9'"));
}

TEST_F(TorchFiles, RejectSmallFilesThatWouldNeedMuchMemory) {
  EXPECT_THAT(error_of_value(pickled({.elements = 6, .size = {1 << 30}, .stride = {0}})),
              HasSubstr("would together need more than 4 times the size of the file"));
  std::string twice = "]q\x01";  // each list contains the previous one twice
  for (int i = 1; i < 15; ++i) {
    const char before = static_cast<char>(i), slot = static_cast<char>(i + 1);
    twice += std::string("]q") + slot + "(";
    for (int copies = 0; copies < 4; ++copies) twice += std::string("h") + before;
    twice += "e";
  }
  EXPECT_THAT(error_of_value(twice), HasSubstr("more entries than models have"));
  std::string deep = "]q\x01";
  deep += "h\x01";
  deep += "a";  // the list contains itself
  EXPECT_THAT(error_of_value(deep), HasSubstr("nested too deep"));
}

TEST_F(TorchFiles, RejectDamagedZipFiles) {
  const std::vector<ZipMember> members =
      torch_members(pickled_dict({{"x", pickled(kMatrix)}}), {kSix});
  const auto changed = [&](auto change) {
    auto all = members;
    change(all);
    return zip_of(all);
  };
  EXPECT_THAT(error(changed([](auto& m) { m[1].method = 8; })),
              HasSubstr("member 'model/data/0' is compressed (method 8)"));
  EXPECT_THAT(error(changed([](auto& m) { m[1].flags = 9; })), HasSubstr("is encrypted"));
  EXPECT_THAT(error(changed([](auto& m) { m[1].wrong_crc = 1; })),
              HasSubstr("'model/data/0' does not match its checksum"));
  EXPECT_THAT(error(changed([](auto& m) { m[1].name = m[0].name; })), HasSubstr("two members"));
  EXPECT_THAT(error(changed([](auto& m) { m.erase(m.begin()); })), HasSubstr("without data.pkl"));
  EXPECT_THAT(error(changed([](auto& m) {
                m.push_back({"model/byteorder", "big"});
              })),
              HasSubstr("big-endian"));
}

TEST_F(TorchFiles, RejectFilesTruncatedAnywhere) {
  for (const bool zip64 : {false, true}) {
    const std::string whole =
        zip_of(torch_members(pickled_dict({{"x", pickled(kMatrix)}}), {kSix}), zip64);
    for (std::size_t bytes = 4; bytes < whole.size(); ++bytes) {
      ASSERT_THAT(error(whole.substr(0, bytes)), HasSubstr("model.pt")) << bytes;
    }
  }
}

TEST_F(TorchFiles, RejectOrIgnoreFlippedBits) {
  const std::string whole =
      zip_of(torch_members(pickled_dict({{"x", pickled(kMatrix)}}), {kSix}), true);
  for (std::size_t bit = 8 * 4; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const TorchFile file = read(flipped);
      const auto values = file.tensors.float32("x", kMatrix.size);
      ASSERT_TRUE(std::ranges::equal(std::as_bytes(values), std::as_bytes(std::span(kSix)))) << bit;
    } catch (const InputError&) {
    }
  }
}

TEST_F(TorchFiles, RejectAnOlderFormatAndNameTheCommandThatConvertsIt) {
  EXPECT_THAT(error(std::string("\x80\x02\x8a\x0al\xfc\x9c"
                                "F\xf9 j\xa8P\x19.",
                                15)),
              AllOf(HasSubstr("before 1.6"), HasSubstr("python3 -c")));
}

TEST_F(TorchFiles, DoNotRunFunctionsThatAPickleCalls) {
  write_file(folder_ / "model.pt",
             zip_of(torch_members(pickled_call("os\nsystem", pickled_tuple({pickled_text("x")})))));
  EXPECT_THAT(message_of<InputError>([&] { read_weights(folder_ / "model.pt"); }),
              HasSubstr("holds no tensors but os.system (nothing in it was run)"));
}

TEST_F(TorchFiles, FindAStateDictAmongOtherData) {
  const std::string state = pickled_dict({{"module.conv1.weight", pickled(kMatrix)}});
  write_file(
      folder_ / "model.pt",
      zip_of(torch_members(
          pickled_dict({{"epoch", pickled_number(2)},
                        {"state_dict_backbone", state},
                        {"state_dict_softmax_fc", pickled_dict({{"weight", pickled(kMatrix)}})}}),
          {kSix})));
  const WeightsFile file = read_weights(folder_ / "model.pt");
  EXPECT_EQ(file.about.at("epoch"), 2);
  EXPECT_EQ(file.state_dict.tensors().size(), 1u);
  EXPECT_TRUE(file.state_dict.tensors().contains("conv1.weight"));
  EXPECT_TRUE(file.others.tensors().contains("state_dict_softmax_fc/weight"));
}

}  // namespace
}  // namespace pfc
