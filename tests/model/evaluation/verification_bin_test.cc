#include "model/evaluation/verification_bin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "common/error.h"
#include "tests/model/evaluation/python_pickles.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::filesystem::path find(const std::string& target, const std::filesystem::path& rec) {
  return find_verification_bin(target, std::span(&rec, 1));
}

class VerificationBin : public ::testing::Test {
 protected:
  VerificationSet read(std::string_view bytes) {
    return parse_verification_bin(path_, std::as_bytes(std::span(bytes)));
  }
  std::string error(std::string_view bytes) {
    return message_of<InputError>([&] { read(bytes); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "faces.bin";
  const std::string first_ = "\xff\xd8one";
  const std::string second_ = "\xff\xd8\x80two\xfe";
};

TEST_F(VerificationBin, ReadsBytesOfEveryProtocol) {
  for (const auto hex :
       {kBytesProtocol2, kBytesProtocol3, kBytesProtocol4, kBytesProtocol5, kPython2Bytes}) {
    const VerificationSet set = read(from_hex(hex));
    EXPECT_EQ(set.name, "faces");
    ASSERT_EQ(set.images.size(), 2u);
    EXPECT_EQ(as_text(set.images[0]), first_);
    EXPECT_EQ(as_text(set.images[1]), second_);
    EXPECT_THAT(set.same, ElementsAre(true));
  }
}

TEST_F(VerificationBin, ReadsNumpyArraysOfEveryProtocol) {
  for (const auto hex : {kNumpyProtocol2, kNumpyProtocol3, kNumpyProtocol4, kNumpyProtocol5}) {
    const VerificationSet set = read(from_hex(hex));
    ASSERT_EQ(set.images.size(), 2u);
    EXPECT_EQ(as_text(set.images[0]), first_);
    EXPECT_EQ(as_text(set.images[1]), second_);
  }
  const VerificationSet old = read(from_hex(kPython2Numpy));
  EXPECT_EQ(as_text(old.images.at(0)), first_);
  EXPECT_EQ(as_text(old.images.at(1)), first_);
  EXPECT_THAT(old.same, ElementsAre(false));
}

TEST_F(VerificationBin, ReadsNumpyBooleans) {
  EXPECT_THAT(read(from_hex(kNumpyBoolProtocol2)).same, ElementsAre(false));
  EXPECT_THAT(read(from_hex(kNumpyBoolProtocol4)).same, ElementsAre(false));
  EXPECT_THAT(read(from_hex(kNumpyFlagsProtocol2)).same, ElementsAre(true));
  EXPECT_THAT(read(from_hex(kNumpyFlagsProtocol5)).same, ElementsAre(true));
}

TEST_F(VerificationBin, ReadsFloatsAsBooleans) {
  const auto with_flags = [](const std::string& first, const std::string& second) {
    const auto number = [](const std::string& high) { return "G" + high + std::string(6, '\0'); };
    return "\x80\x02](U\x01xU\x01xU\x01xU\x01xe](" + number(first) + number(second) + "e\x86.";
  };
  const std::string one = "\x3f\xf0", zero(2, '\0'), half = "\x3f\xe0";
  EXPECT_THAT(read(with_flags(one, zero)).same, ElementsAre(true, false));
  EXPECT_THAT(error(with_flags(one, half)), HasSubstr("flag 1 is neither true nor false"));
}

TEST_F(VerificationBin, RejectsPicklesThatCallFunctions) {
  for (const auto hex : {kCallsSystemProtocol2, kCallsSystemProtocol4}) {
    EXPECT_THAT(error(from_hex(hex)),
                HasSubstr("asks for posix.system, which is refused (nothing was run)"));
  }
}

TEST_F(VerificationBin, RejectsArraysThatAreNotEncodedImages) {
  EXPECT_THAT(error(from_hex(kNumpyPixelsProtocol4)),
              HasSubstr("image 0 is neither bytes nor a one-dimensional uint8 array"));
  EXPECT_THAT(error(from_hex(kNumpyFloatProtocol3)),
              HasSubstr("a numpy array of f4, expected uint8 or bool"));
}

TEST_F(VerificationBin, ReportsThatAFileIsNotAPickle) {
  EXPECT_THAT(error(""), HasSubstr("faces.bin: offset 0: begins with nothing, expected a pickle"));
  EXPECT_THAT(error("PK\x03\x04 zip"), HasSubstr("begins with 50 4b 03 04"));
  EXPECT_THAT(error("\x80\x06."), HasSubstr("begins with 80 06 2e"));
  EXPECT_THAT(error("\x80\x04]q"),
              HasSubstr("faces.bin: offset 3: opcode 71: expected 1 more bytes"));
  EXPECT_THAT(error("\x80\x04."), HasSubstr("offset 2: opcode 2e: the stack is empty"));
  EXPECT_THAT(error("\x80\x04}."), HasSubstr("offset 2: opcode 7d: an opcode that verification"));
}

TEST_F(VerificationBin, ReportsThatAFileIsTruncated) {
  const std::string whole = from_hex(kBytesProtocol4);
  for (std::size_t size = 2; size < whole.size(); ++size) {
    EXPECT_THAT(error(whole.substr(0, size)), HasSubstr("faces.bin")) << size;
  }
  EXPECT_THAT(error(whole.substr(0, 18)), HasSubstr("it is truncated"));
}

TEST_F(VerificationBin, ReportsThatAPickleIsNotAVerificationSet) {
  EXPECT_THAT(error("\x80\x04N."), HasSubstr("the pickle is not a list or tuple"));
  EXPECT_THAT(error("\x80\x04]\x85."), HasSubstr("found 1 parts, expected (images, flags)"));
  EXPECT_THAT(error("\x80\x04]]\x86."), HasSubstr("found no flags"));
  EXPECT_THAT(error("\x80\x04](C\x01xe]\x88\x61\x86."), HasSubstr("found 1 images and 1 flags"));
  EXPECT_THAT(error("\x80\x04](NNe]\x88\x61\x86."), HasSubstr("image 0 is neither bytes"));
  EXPECT_THAT(error("\x80\x04]]K\x02\x61\x86."), HasSubstr("flag 0 is neither true nor false"));
}

TEST_F(VerificationBin, UsesLittleMemoryForASmallFile) {
  std::string repeated = "\x80\x04](C\x64" + std::string(100, 'x') + "q";
  repeated += '\0';
  for (int i = 0; i < 3999; ++i) repeated += std::string("h\0", 2);
  repeated += "e](";
  for (int i = 0; i < 2000; ++i) repeated += '\x88';
  EXPECT_THAT(error(repeated + "e\x86."), HasSubstr("too many images refer to the same bytes"));
  EXPECT_THAT(error("\x80\x04" + std::string(1'100'000, 'N')), HasSubstr("more values at once"));
  EXPECT_THAT(error("\x80\x04]" + std::string(8'600'000, 'q')), HasSubstr("more values"));
}

TEST_F(VerificationBin, IsUnchangedAfterWritingAndReading) {
  std::mt19937 random(6);
  std::vector<std::vector<std::byte>> images(5002);
  for (auto& image : images) {
    image.resize(1 + random() % 300);
    for (std::byte& b : image) b = static_cast<std::byte>(random());
  }
  std::vector<bool> same(2501);
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = random() % 2 == 0;
  write_verification_bin(path_, images, same);
  const VerificationSet set = read_verification_bin(path_);
  EXPECT_EQ(set.images, images);
  EXPECT_EQ(set.same, same);
}

TEST_F(VerificationBin, ThrowsOnRandomDamage) {
  std::mt19937 random(7);
  for (const auto hex : {kBytesProtocol2, kBytesProtocol4, kNumpyProtocol2, kNumpyProtocol3,
                         kNumpyProtocol5, kNumpyFlagsProtocol5, kPython2Numpy}) {
    const std::string whole = from_hex(hex);
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      for (unsigned k = 0; k <= random() % 3; ++k) {
        bytes[2 + random() % (bytes.size() - 2)] = static_cast<char>(random());
      }
      try {
        read(bytes);
      } catch (const InputError&) {
      }
    }
  }
}

TEST_F(VerificationBin, IsFoundByNameAndByPath) {
  write_file(path_, "x");
  write_file(folder_ / "train.rec", "x");
  EXPECT_EQ(find("faces", folder_.path()), path_);
  EXPECT_EQ(find("faces.bin", folder_.path()), path_);
  EXPECT_EQ(find("faces", folder_ / "train.rec"), path_);
  EXPECT_EQ(find("faces", folder_ / "part-{000..003}.rec"), path_);
  EXPECT_EQ(find(path_.string(), "elsewhere"), path_);
  const std::string message = message_of<InputError>([&] { find("lfw", folder_.path()); });
  EXPECT_THAT(message, HasSubstr("val_targets: 'lfw' not found; tried "));
  EXPECT_THAT(message, HasSubstr((folder_ / "lfw.bin").string()));
}

TEST_F(VerificationBin, ReportsAMissingFile) {
  EXPECT_THAT(message_of<InputError>([&] { read_verification_bin(path_); }),
              HasSubstr("faces.bin: cannot open"));
}

TEST_F(VerificationBin, DoesNotWaitForTheWriterOfAFifo) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(find("faces", folder_.path()), path_);
  EXPECT_THAT(message_of<InputError>([&] { read_verification_bin(path_); }),
              HasSubstr("faces.bin: not a regular file but a FIFO"));
}

TEST_F(VerificationBin, SearchIgnoresAFolderOfThatName) {
  std::filesystem::create_directory(folder_ / "lfw");
  EXPECT_THAT(message_of<InputError>([&] { find("lfw", folder_.path()); }),
              HasSubstr("val_targets: 'lfw' not found; tried "));
}

}  // namespace
}  // namespace pfc
