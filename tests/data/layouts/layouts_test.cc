// Tests that run for every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/prefetch/prefetcher.h"
#include "data/records/image_record.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/array_files.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/lmdb_pages.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of_numbers;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;
using LabelList = std::vector<std::int64_t>;

/// Functions that write a data set, one for each layout. Image i is jpeg_of(i). Each function
/// returns the path to open.
namespace layouts {

std::vector<std::byte> jpeg_of(std::size_t image) {
  return testing::make_jpeg(16, 16, static_cast<unsigned>(image));
}

void write_records(const fs::path& rec, const LabelList& labels, std::size_t first,
                   std::size_t end) {
  RecordWriter writer(rec, fs::path(rec).replace_extension(".idx"));
  for (std::size_t i = first; i < end; ++i) {
    writer.append(static_cast<std::int64_t>(i), encode_image_record(labels[i], i, jpeg_of(i)));
  }
  writer.close();
}

fs::path record(const fs::path& folder, const LabelList& labels) {
  write_records(folder / "train.rec", labels, 0, labels.size());
  return folder / "train.rec";
}

/// Writes the records from the last image to the first, but the index in the order of the images.
fs::path record_backwards(const fs::path& folder, const LabelList& labels) {
  RecordWriter writer(folder / "train.rec", folder / "train.idx");
  for (std::size_t i = labels.size(); i-- > 0;) {
    writer.append(static_cast<std::int64_t>(i), encode_image_record(labels[i], i, jpeg_of(i)));
  }
  writer.close();
  std::ifstream index(folder / "train.idx");
  std::string lines;
  for (std::string line; std::getline(index, line);) lines.insert(0, line + "\n");
  write_file(folder / "train.idx", lines);
  return folder / "train.rec";
}

fs::path several_records(const fs::path& folder, const LabelList& labels) {
  write_records(folder / "train-0.rec", labels, 0, labels.size() / 2);
  write_records(folder / "train-1.rec", labels, labels.size() / 2, labels.size());
  return folder;
}

fs::path people(const fs::path& folder, const LabelList& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const fs::path person = folder / ("p" + std::to_string(labels[i]));
    fs::create_directories(person);
    write_file(person / (std::to_string(i) + ".jpg"), jpeg_of(i));
  }
  return folder;
}

/// Writes the images, and a text file with a line for each image, made from its number and label.
template <class Line>
fs::path list(const fs::path& file, const LabelList& labels, const Line& line) {
  std::string lines;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    write_file(file.parent_path() / (std::to_string(i) + ".jpg"), jpeg_of(i));
    lines += line(std::to_string(i), std::to_string(labels[i])) + "\n";
  }
  write_file(file, lines);
  return file;
}

fs::path lst(const fs::path& folder, const LabelList& labels) {
  return list(folder / "train.lst", labels, [](const std::string& i, const std::string& label) {
    return i + "\t" + label + "\t" + i + ".jpg";
  });
}

fs::path tsv(const fs::path& folder, const LabelList& labels) {
  return list(folder / "train.tsv", labels,
              [](const std::string& i, const std::string& label) { return i + ".jpg\t" + label; });
}

fs::path tar(const fs::path& folder, const LabelList& labels) {
  fs::create_directories(folder / "in");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    write_file(folder / "in" / (std::to_string(i) + ".jpg"), jpeg_of(i));
    write_file(folder / "in" / (std::to_string(i) + ".cls"), std::to_string(labels[i]));
  }
  const std::string command = "tar --sort=name --format=pax -C " + (folder / "in").string() +
                              " -cf " + (folder / "x.tar").string() + " .";
  check(std::system(command.c_str()) == 0, command);  // NOLINT(concurrency-mt-unsafe)
  fs::remove_all(folder / "in");
  return folder / "x.tar";
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

fs::path lmdb(const fs::path& folder, const LabelList& labels) {
  testing::LmdbPages::Entries entries;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string image = text_of(jpeg_of(i));
    const auto bytes = static_cast<std::uint32_t>(image.size());
    const auto label = static_cast<std::int32_t>(labels[i]);
    entries.emplace_back(std::to_string(i),  // pickle.dumps((image, label), 4)
                         "\x80\x04"
                         "B" +
                             bytes_of_numbers<std::uint32_t>({bytes}) + image + "J" +
                             bytes_of_numbers<std::int32_t>({label}) + "\x86.");
  }
  write_file(folder / "data.mdb", testing::LmdbPages::write(entries));
  return folder / "data.mdb";
}

fs::path lmdb_with_list(const fs::path& folder, const LabelList& labels) {
  testing::LmdbPages::Entries entries;
  std::string lines;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    entries.emplace_back("k" + std::to_string(i), text_of(jpeg_of(i)));
    lines += "k" + std::to_string(i) + " " + std::to_string(labels[i]) + "\n";
  }
  write_file(folder / "data.mdb", testing::LmdbPages::write(entries));
  write_file(folder / "labels.txt", lines);
  return folder / "data.mdb";
}

std::vector<float> embedding_of(std::size_t image) { return {static_cast<float>(image) + 1, -2}; }

fs::path npy_files(const fs::path& folder, const LabelList& labels) {
  const std::string n = std::to_string(labels.size());
  std::string rows;
  for (std::size_t i = 0; i < labels.size(); ++i) rows += bytes_of_numbers(embedding_of(i));
  write_file(folder / "embeddings.npy", testing::npy("<f4", "(" + n + ", 2)", rows));
  write_file(folder / "labels.npy", testing::npy("<i8", "(" + n + ",)", bytes_of_numbers(labels)));
  return folder / "embeddings.npy";
}

fs::path safetensors_bf16(const fs::path& folder, const LabelList& labels) {
  const std::string n = std::to_string(labels.size());
  std::string rows;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (const float number : embedding_of(i)) rows += bytes_of_numbers<float>({number}).substr(2);
  }
  write_file(folder / "embeddings.safetensors",
             testing::safetensors({{"embeddings", "BF16", "[" + n + ",2]", rows},
                                   {"labels", "I64", "[" + n + "]", bytes_of_numbers(labels)}}));
  return folder / "embeddings.safetensors";
}

}  // namespace layouts

using layouts::embedding_of, layouts::jpeg_of;

struct LayoutCase {
  const char* name;
  fs::path (*write)(const fs::path& folder, const LabelList& labels);
  const char* file;  ///< the file that has the last images
  bool embeddings = false;
  bool brief_has_labels = true;
  [[nodiscard]] bool is_folder() const { return write == layouts::people; }
};

class AnyLayout : public testing::DataFolder, public ::testing::WithParamInterface<LayoutCase> {
 protected:
  std::unique_ptr<Dataset> open(DatasetOptions options = {}) {
    if (rec_.empty()) rec_ = GetParam().write(folder_.path(), labels_);
    options.rec = rec_;
    return open_dataset(options);
  }
  std::string error(const DatasetOptions& options = {}) {
    return message_of<InputError>([&] { open(options); });
  }
  [[nodiscard]] static std::vector<std::byte> bytes_of(std::size_t image) {
    if (!GetParam().embeddings) return jpeg_of(image);
    const auto numbers = embedding_of(image);
    const auto bytes = std::as_bytes(std::span(numbers));
    return {bytes.begin(), bytes.end()};
  }
  /// Returns the bytes of this image in a batch.
  [[nodiscard]] static std::vector<std::uint8_t> sample_of(std::size_t image) {
    const std::vector<std::byte> bytes = bytes_of(image);
    std::vector<std::uint8_t> sample(bytes.size());
    std::memcpy(sample.data(), bytes.data(), bytes.size());
    if (!GetParam().embeddings) ImageDecoder().decode_whole(bytes, sample);
    return sample;
  }
  void expect_image(const Dataset& dataset, std::size_t image,
                    std::span<const std::byte> ahead = {}) {
    const Sample sample = dataset.read(static_cast<std::int64_t>(image), buffer_, ahead);
    EXPECT_EQ(sample.label, labels_[image]);
    EXPECT_TRUE(std::ranges::equal(sample.encoded, bytes_of(image))) << image;
  }
  [[nodiscard]] fs::path file() const { return folder_ / GetParam().file; }

  LabelList labels_{0, 0, 1, 1, 2, 2};
  fs::path rec_;
  ImageBuffer buffer_;
};

TEST_P(AnyLayout, HasImagesAndLabelsInOrder) {
  const auto dataset = open();
  ASSERT_EQ(dataset->info().images, 6);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->info().height, GetParam().embeddings ? 0 : 16);
  EXPECT_THAT(dataset->info().warnings, ::testing::IsEmpty());
  std::set<std::string> names;
  for (std::size_t i = 6; i-- > 0;) {
    expect_image(*dataset, i);
    EXPECT_EQ(dataset->label(static_cast<std::int64_t>(i), buffer_), labels_[i]);
    names.insert(dataset->name(static_cast<std::int64_t>(i)));
  }
  EXPECT_EQ(names.size(), 6u);
  EXPECT_EQ(dataset->identity(1), GetParam().is_folder() ? "p1" : "");
}

TEST_P(AnyLayout, ReadsTheBytesThatWereNotReadAhead) {
  const auto dataset = open();
  for (std::size_t i = 0; i < 6; ++i) {
    const Extent extent = dataset->extent(static_cast<std::int64_t>(i));
    std::vector<std::byte> ahead(extent.bytes);
    ASSERT_EQ(extent.file->read_at(extent.offset, ahead), ahead.size());
    for (std::size_t n = 0; n <= ahead.size(); n += n < 40 ? 1 : 97) {
      expect_image(*dataset, i, std::span(ahead).first(n));
    }
    expect_image(*dataset, i, ahead);
  }
}

TEST_P(AnyLayout, PrefetcherReturnsAllImagesInOrder) {
  const auto dataset = open();
  Prefetcher prefetcher(
      *dataset,
      {.batch_size = 3, .shuffle = false, .augmentation = {.flip = false}, .last_batch = 4});
  LabelList labels;
  std::vector<std::uint8_t> samples, expected;
  while (const auto batch = prefetcher.next()) {
    labels.insert(labels.end(), batch->labels.begin(), batch->labels.end());
    samples.insert(samples.end(), batch->images.begin(), batch->images.end());
  }
  for (std::size_t i = 0; i < 12; ++i) {
    const std::vector<std::uint8_t> sample = sample_of(i % 6);
    expected.insert(expected.end(), sample.begin(), sample.end());
  }
  EXPECT_THAT(labels, ::testing::ElementsAre(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
  EXPECT_EQ(samples, expected);
}

TEST_P(AnyLayout, NamesAFileThatIsTruncatedAfterOpening) {
  const auto dataset = open();
  const bool has_one_image = file().extension() == ".jpg";
  ImageDecoder decoder;
  std::vector<std::uint8_t> rgb;
  int least = 0;
  for (const int part : {3, 2, 1, 0}) {
    fs::resize_file(file(), fs::file_size(file()) * static_cast<std::uintmax_t>(part) / 4);
    int damaged = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      try {
        const Sample sample = dataset->read(static_cast<std::int64_t>(i), buffer_);
        if (!GetParam().embeddings) decoder.decode_whole(sample.encoded, rgb);
      } catch (const DamagedImage& e) {
        ++damaged;
        const bool is_named = std::string(e.what()).find(file().string()) != std::string::npos;
        EXPECT_TRUE(is_named || has_one_image) << e.what();
      }
    }
    EXPECT_GE(damaged, least) << "of " << part << "/4 of the previous file";
    least = damaged;
  }
  EXPECT_GE(least, has_one_image ? 1 : 3);
}

TEST_P(AnyLayout, ComparesTheJobsNumImageAndNumClassesWithTheData) {
  EXPECT_THAT(error({.num_image = 7}),
              HasSubstr("but num_image is 7: correct or remove num_image"));
  EXPECT_EQ(open({.num_classes = 9})->info().classes, 9);
  EXPECT_EQ(open({.num_image = 6})->info().images, 6);
  const std::string wrong = message_of<InputError>([&] {
    // With some layouts, labels are known only when they are read.
    open({.num_classes = 2})->read(5, buffer_);
  });
  EXPECT_THAT(wrong, HasSubstr("found label 2, "));
}

TEST_P(AnyLayout, TakesTheSizeOfImagesFromTheJob) {
  EXPECT_EQ(open({.image_size = 24})->info().height, GetParam().embeddings ? 0 : 24);
}

TEST_P(AnyLayout, UsesTheNamesBesideTheData) {
  if (GetParam().is_folder()) return;  // here the names are those of the folders
  write_file(folder_ / "identities.txt", "Ada\nGrace\nMary\n");
  EXPECT_EQ(open()->identity(1), "Grace");
  write_file(folder_ / "identities.txt", "Ada\n");
  EXPECT_THAT(error(), HasSubstr("identities.txt: found 1 lines, expected 3"));
}

TEST_P(AnyLayout, WarnsOfLabelsThatDoNotFit) {
  if (GetParam().is_folder()) return;  // here labels are the numbers of the folders
  labels_ = {1, 1, 2, 8};
  EXPECT_THAT(open()->info().warnings,
              ::testing::AllOf(Contains(HasSubstr("the smallest label is 1, but labels begin at "
                                                  "0")),
                               Contains(HasSubstr("9 classes, but there are only 4 images"))));
}

TEST_P(AnyLayout, RejectsAGitLfsPointerAndAFifo) {
  open();
  const fs::path main = fs::is_directory(rec_) ? file() : rec_;
  write_file(main, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  const auto refused = [&] { return message_of<InputError>([&] { open()->read(5, buffer_); }); };
  EXPECT_THAT(refused(), HasSubstr(main.string() + ": is a Git LFS pointer, not the file itself; "
                                                   "run \"git lfs pull\""));
  fs::remove(main);
  ASSERT_EQ(::mkfifo(main.c_str(), 0600), 0);
  EXPECT_THAT(refused(), HasSubstr(main.string() + ": not a regular file but a FIFO"));
}

TEST_P(AnyLayout, DescriptionsOfFilesDependOnTheLabels) {
  if (!GetParam().brief_has_labels) return;
  const auto briefs = [&](const LabelList& labels) {
    const TemporaryFolder folder;
    std::string all;
    const auto dataset = open_dataset({.rec = GetParam().write(folder.path(), labels)});
    for (const FileBrief& brief : dataset->briefs()) all += brief.holds;
    return all;
  };
  EXPECT_NE(briefs({0, 0, 1}), briefs({0, 1, 1}));
  EXPECT_EQ(briefs({0, 0, 1}), briefs({0, 0, 1}));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, AnyLayout,
    ::testing::Values(
        LayoutCase{"Records", layouts::record, "train.rec"},
        LayoutCase{"RecordsInAnotherOrder", layouts::record_backwards, "train.rec"},
        LayoutCase{"SeveralRecords", layouts::several_records, "train-1.rec"},
        LayoutCase{"Folder", layouts::people, "p2/5.jpg"}, LayoutCase{"Lst", layouts::lst, "5.jpg"},
        LayoutCase{"Tsv", layouts::tsv, "5.jpg"}, LayoutCase{"Tar", layouts::tar, "x.tar"},
        LayoutCase{"Lmdb", layouts::lmdb, "data.mdb", false, false},
        LayoutCase{"LmdbWithList", layouts::lmdb_with_list, "data.mdb"},
        LayoutCase{"Npy", layouts::npy_files, "embeddings.npy", true},
        LayoutCase{"Safetensors", layouts::safetensors_bf16, "embeddings.safetensors", true}),
    [](const auto& layout) { return layout.param.name; });

}  // namespace
}  // namespace pfc
