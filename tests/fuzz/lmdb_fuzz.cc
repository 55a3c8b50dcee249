// LMDB databases, as data sets. The first byte selects the file beside the database: l: labels.txt,
// for values that are images; c: property, which gives the number of classes and the image size.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/records/property_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/read_all.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"
#include "tests/support/lmdb_pages.h"
#include "tests/support/temporary_folder.h"

namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns pickle.dumps((image, label), 4).
std::string pickle(const std::string& image, char label) {
  return std::string(
             "\x80\x04"
             "C",
             3) +
         static_cast<char>(image.size()) + image + "K" + label + "\x86.";
}

std::string datum(const std::string& image, char label) {
  return std::string("\x08\x03\x22") + static_cast<char>(image.size()) + image + "\x28" + label;
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const std::string small = text_of(testing::encode_png(testing::draw_waves(2, 2, 1), 2, 2));
  const std::string large = text_of(testing::make_jpeg(8, 8, 1));
  check(small.size() < 128 && large.size() > testing::LmdbPages::kPage,
        "lmdb: images of other sizes");
  using testing::LmdbPages;
  return {"p" + LmdbPages::write({{"0", pickle(small, 0)},
                                  {"1", pickle(small, 1)},
                                  {"2", pickle(small, 7)},
                                  {"__len__", "3"}}),
          "p" + LmdbPages::write({{"a", datum(small, 0)}, {"b", datum(small, 2)}}),
          "p" + LmdbPages::write({{"image-1", large},
                                  {"image-2", small},
                                  {"label-1", "3"},
                                  {"label-2", "0"},
                                  {"num-samples", "2"}}),
          "l" + LmdbPages::write({{"a", small}, {"b", large}, {"c", small}}),
          "l" + LmdbPages::write({{"image-1", large}, {"image-2", small}}),
          "c" + LmdbPages::write({{"image-1", large}, {"label-1", "1"}, {"other", small}}),
          "c" + LmdbPages::write({{"image-1", large}, {"label-2", "1"}}),
          "c" + LmdbPages::write({{"0", pickle(small, 0)}, {"1", pickle(small, 3)}})};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder plain, labelled, classed;
  static const bool written = [] {
    pfc::testing::write_file(labelled / "labels.txt", "a 0\nb 1\nc 1\nimage-1 2\n");
    pfc::write_property(classed / "property", {2, 8, 8});
    return true;
  }();
  if (size == 0 || !written) return 0;
  const auto& folder = data[0] == 'l' ? labelled : data[0] == 'c' ? classed : plain;
  const auto file = folder / "data.mdb";
  pfc::testing::write_file(file,
                           std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  pfc::fuzz::read_all(file);
  return 0;
}
