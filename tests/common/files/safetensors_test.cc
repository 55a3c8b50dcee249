#include "common/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path write_raw(const std::string& header, const std::string& data) {
    return write_bytes(length_of(header.size()) + header + data);
  }
  std::filesystem::path write_bytes(const std::string& bytes) {
    const auto path = folder_ / "raw.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string length_of(std::uint64_t length) {
    return {reinterpret_cast<const char*>(&length), 8};
  }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::string error_of(const std::string& header, const std::string& data) {
    try {
      const SafetensorsFile file(write_raw(header, data));
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
};

const std::vector<float> kFloats = {
    1.f, -0.f, 3.25f, 1e-40f, std::numeric_limits<float>::infinity(), 6.f};
const std::vector<std::int64_t> kLongs = {1ll << 40, -1};

std::vector<SafetensorsEntry> example_entries() {
  return {{"b.weight", "F32", {2, 3}, std::as_bytes(std::span(kFloats))},
          {"a.count", "I64", {2}, std::as_bytes(std::span(kLongs))},
          {"empty", "F32", {0, 512}, {}},
          {"flags", "U8", {3}, std::as_bytes(std::span("xyz", 3))}};
}

TEST_F(Safetensors, ReadsBackTheSameBitsNamesShapesAndMetadata) {
  const auto path = folder_ / "x.safetensors";
  write_safetensors(path, example_entries(), {{"first", "0"}, {"last", "9"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("last"), "9");
  const auto floats = file.float32("b.weight", std::vector<std::int64_t>{2, 3});
  EXPECT_EQ(std::memcmp(floats.data(), kFloats.data(), floats.size_bytes()), 0);
  EXPECT_THAT(file.at("a.count").shape, ElementsAre(2));
  EXPECT_EQ(std::memcmp(file.at("a.count").bytes.data(), kLongs.data(), 16), 0);
  EXPECT_EQ(file.at("empty").bytes.size(), 0u);
  EXPECT_EQ(file.at("flags").dtype, "U8");
}

TEST_F(Safetensors, WritesTheOfficialLayout) {
  const auto path = folder_ / "x.safetensors";
  const std::vector<float> one = {1.f};
  const std::vector<SafetensorsEntry> entries = {{"t", "F32", {1}, std::as_bytes(std::span(one))}};
  write_safetensors(path, entries);
  const std::string header = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(content(path), length_of(padded.size()) + padded + std::string("\0\0\x80\x3f", 4));
}

TEST_F(Safetensors, AcceptsATensorInPieces) {
  const auto whole = folder_ / "whole.safetensors", pieces = folder_ / "pieces.safetensors";
  const auto bytes = std::as_bytes(std::span(kFloats));
  write_safetensors(whole, std::vector<SafetensorsEntry>{{"t", "F32", {6}, bytes, {}}});
  const auto give = [&](const ByteSink& sink) {
    sink(bytes.first(4));
    sink({});
    sink(bytes.subspan(4));
  };
  const WrittenFile written =
      write_safetensors(pieces, std::vector<SafetensorsEntry>{{"t", "F32", {6}, {}, give}});
  EXPECT_EQ(content(pieces), content(whole));
  EXPECT_EQ(written.bytes, content(whole).size());
}

TEST_F(Safetensors, RejectsPiecesThatDoNotFillTheShape) {
  const auto path = folder_ / "x.safetensors";
  const auto give = [](const ByteSink& sink) { sink(std::as_bytes(std::span(kFloats))); };
  const std::vector<SafetensorsEntry> entries = {{"t", "F32", {7}, {}, give}};
  EXPECT_THROW(write_safetensors(path, entries), std::logic_error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Safetensors, PutsWiderTypesFirstSoThatEveryTensorIsAligned) {
  const auto path = folder_ / "x.safetensors";
  const std::vector<SafetensorsEntry> entries = {
      {"u8", "U8", {3}, std::as_bytes(std::span("abc", 3))},
      {"f32", "F32", {6}, std::as_bytes(std::span(kFloats))},
      {"i64", "I64", {2}, std::as_bytes(std::span(kLongs))}};
  write_safetensors(path, entries);
  const std::string bytes = content(path);
  EXPECT_LT(bytes.find("i64"), bytes.find("f32"));
  EXPECT_LT(bytes.find("f32"), bytes.find("u8"));
}

TEST_F(Safetensors, ReturnsTheChecksumOfTheFile) {
  const auto path = folder_ / "x.safetensors";
  const WrittenFile written = write_safetensors(path, example_entries());
  const std::string bytes = content(path);
  EXPECT_EQ(written.bytes, bytes.size());
  EXPECT_EQ(written.sha256, sha256_hex(std::as_bytes(std::span(bytes))));
}

TEST_F(Safetensors, ReadsFloatsAtOddAddresses) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const SafetensorsFile file(write_raw(header, std::string("?\0\0\x80\x3f", 5)));
  const auto b = file.float32("b", std::vector<std::int64_t>{1});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % alignof(float), 0u);
  EXPECT_EQ(b[0], 1.f);
}

TEST_F(Safetensors, NamesAMissingTensorAndAWrongShape) {
  const auto path = folder_ / "x.safetensors";
  write_safetensors(path, example_entries());
  const SafetensorsFile file(path);
  EXPECT_THAT([&] { (void)file.at("c.weight"); },
              ::testing::ThrowsMessage<InputError>(::testing::AllOf(
                  HasSubstr(path.string()), HasSubstr("'c.weight'; the nearest is 'b.weight'"))));
  EXPECT_THAT(
      [&] {
        (void)file.float32("b.weight", std::vector<std::int64_t>{3, 2});
      },
      ::testing::ThrowsMessage<InputError>(
          HasSubstr("tensor 'b.weight' is F32 [2, 3], expected F32 [3, 2]")));
}

TEST_F(Safetensors, RejectsBrokenHeadersWithTheReason) {
  const std::string t = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string four(4, 'x');
  EXPECT_THAT(error_of("[]", ""), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_of("{\"t\":", ""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("{\"t\":" + t + ",\"t\":" + t + "}", four), HasSubstr("'t' twice"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","dtype":"F32"}})", ""), HasSubstr("twice"));
  EXPECT_THAT(error_of("{\"t\":" + t + "}", "xx"), HasSubstr("within the file's 2 bytes"));
  EXPECT_THAT(error_of("{\"t\":" + t + "}", "12345"), HasSubstr("end at byte 4"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four),
              HasSubstr("4 bytes do not fit F32 [2]"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four),
              HasSubstr("data_offsets"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", four),
              HasSubstr("unknown dtype 'F33'"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four),
              HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four),
              HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(R"({"a\nb":7})", ""), HasSubstr("tensor 'a?b'"));
  EXPECT_THAT(error_of(R"({"t":7})", ""), HasSubstr("not an object"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"a":1}})", ""), HasSubstr("not a string"));
  EXPECT_THAT(error_of(R"({"t":{"dtype":[[[[]]]]}})", ""), HasSubstr("nested too deep"));
}

TEST_F(Safetensors, RejectsShapesWhoseSizeOverflows) {
  EXPECT_THAT(
      error_of(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
      HasSubstr("do not fit"));
}

TEST_F(Safetensors, RejectsGapsAndOverlaps) {
  const auto two = [](int begin) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(begin + 2) + "]}}";
  };
  EXPECT_THAT(error_of(two(1), "xxx"), HasSubstr("expected 2"));
  EXPECT_THAT(error_of(two(3), "xxxxx"), HasSubstr("expected 2"));
  EXPECT_EQ(error_of(two(2), "xxxx"), "no error");
}

TEST_F(Safetensors, RejectsMissingTruncatedAndForeignFiles) {
  EXPECT_THROW(SafetensorsFile(folder_ / "missing"), InputError);
  EXPECT_THROW(SafetensorsFile(folder_.path()), InputError);
  EXPECT_THROW(SafetensorsFile(write_bytes("")), InputError);
  EXPECT_THROW(SafetensorsFile(write_bytes("1234567")), InputError);
  EXPECT_THROW(SafetensorsFile(write_bytes(std::string(100, '\xff'))), InputError);
}

TEST_F(Safetensors, NeverCrashesOnRandomlyChangedFiles) {
  const auto path = folder_ / "x.safetensors";
  write_safetensors(path, example_entries(), {{"k", "v"}});
  const std::string good = content(path);
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      switch (random() % 3) {
        case 0:
          bytes[random() % bytes.size()] = static_cast<char>(random());
          break;
        case 1:
          bytes.resize(1 + random() % bytes.size());
          break;
        default:
          bytes.insert(random() % bytes.size(), 1, static_cast<char>(random()));
          break;
      }
    }
    try {
      const SafetensorsFile file(write_bytes(bytes));
      for (const auto& [name, tensor] : file.tensors()) sha256_hex(tensor.bytes);  // reads it all
      ++accepted;
    } catch (const InputError&) {
    }
  }
  EXPECT_LT(accepted, 2000);  // the others changed the structure; changed weights are not detected
}

TEST_F(Safetensors, FullDiskNamesTheFileAndLeavesNothingBehind) {
  const auto path = folder_ / "x.safetensors";
  const std::vector<float> many(10'000);
  const std::vector<SafetensorsEntry> entries = {
      {"t", "F32", {10'000}, std::as_bytes(std::span(many))}};
  {
    const FileSizeLimit limit(8192);
    EXPECT_THAT([&] { write_safetensors(path, entries); },
                ::testing::ThrowsMessage<StorageError>(
                    ::testing::AllOf(HasSubstr(path.string()), HasSubstr("File too large"))));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Safetensors, WriterRejectsBytesThatDoNotFitTheShape) {
  std::vector<SafetensorsEntry> entries = example_entries();
  entries[0].shape = {7};
  EXPECT_THROW(write_safetensors(folder_ / "x", entries), std::logic_error);
}

}  // namespace
}  // namespace pfc
