#include "model/evaluation/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>

#include "common/error.h"
#include "data/augment/flip.h"
#include "data/images/decode.h"
#include "tests/support/counting_new.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using testing::draw_waves;
using ::testing::ElementsAre;
using testing::encode_png;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;

constexpr int kSide = 8;
constexpr std::int64_t kDimension = 4;
constexpr EmbedOptions kOptions{
    .batch = 3, .height = kSide, .width = kSide, .embedding_size = kDimension};

/// Means of the left, the upper, the red and all pixels. They change when the image is mirrored.
std::array<float, kDimension> embed_one(std::span<const std::uint8_t> rgb) {
  std::array<float, kDimension> out{};
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    const float value = static_cast<float>(rgb[i]) / 255.f - 0.5f;
    const std::size_t x = i / 3 % kSide;
    if (x < kSide / 3) out[0] += value;
    if (i / 3 / kSide < kSide / 2) out[1] += value;
    if (i % 3 == 0) out[2] += value;
    out[3] += value;
  }
  return out;
}

class Evaluation : public ::testing::Test {
 protected:
  Evaluation() {
    set_.name = "waves";
    set_.file = "data/waves.bin";
    for (unsigned k = 0; k < 11; ++k) {
      const bool same = k % 2 == 0;
      add_image(k);
      add_image(same ? k : k + 50);
      set_.same.push_back(same);
    }
  }
  void add_image(unsigned seed) {
    set_.images.push_back(encode_png(draw_waves(kSide, kSide, seed), kSide, kSide));
  }

  template <class Set>
  auto evaluate_on(int world_size, const Set& set) {
    decltype(evaluate(set, std::declval<Comm&>(), {}, kOptions)) result;
    std::mutex mutex;
    embedded_ = 0;
    run_ranks(world_size, [&](Comm& comm) {
      const EmbedBatch embed = [&](std::span<const std::uint8_t> images, std::span<float> out) {
        ASSERT_EQ(images.size(), static_cast<std::size_t>(kOptions.batch * kSide * kSide * 3));
        ASSERT_EQ(out.size(), static_cast<std::size_t>(kOptions.batch * kDimension));
        for (std::size_t i = 0; i < 3; ++i) {
          const auto one = embed_one(images.subspan(i * kSide * kSide * 3, kSide * kSide * 3));
          std::copy(one.begin(), one.end(), out.begin() + static_cast<std::ptrdiff_t>(4 * i));
        }
        ++embedded_;
      };
      auto own = evaluate(set, comm, embed, kOptions);
      const std::lock_guard lock(mutex);
      if (comm.rank() != 0 && !result.name.empty()) {
        EXPECT_EQ(figures(own), figures(result));
      }
      result = own;
    });
    return result;
  }
  VerificationResult evaluate_on(int world_size) { return evaluate_on(world_size, set_); }

  static std::vector<double> figures(const VerificationResult& result) {
    std::vector<double> all{result.accuracy, result.embedding_norm};
    for (const TarAtFar& tar : result.tars) all.insert(all.end(), {tar.tar, tar.measured});
    for (const RocPoint& p : result.roc.points) all.insert(all.end(), {p.fpr, p.tpr, p.score});
    return all;
  }

  static std::vector<double> figures(const RetrievalResult& result) {
    std::vector<double> all(result.recalls.begin(), result.recalls.end());
    all.insert(all.end(), result.precisions.begin(), result.precisions.end());
    all.insert(all.end(), {static_cast<double>(result.queries), result.embedding_norm});
    return all;
  }

  VerificationSet set_;
  std::atomic<int> embedded_ = 0;
};

TEST_F(Evaluation, SumsImageAndMirrorImageAndNormalises) {
  std::array<std::vector<float>, 2> sides;
  double norms = 0;
  ImageDecoder decoder;
  for (std::size_t i = 0; i < set_.images.size(); ++i) {
    std::vector<std::uint8_t> rgb(kSide * kSide * 3);
    decoder.decode(set_.images[i], {kSide, kSide}, rgb);
    const auto plain = embed_one(rgb);
    flip_horizontally(rgb, kSide);
    const auto mirrored = embed_one(rgb);
    double norm = 0, plain_norm = 0, mirrored_norm = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      norm += std::pow(plain[k] + mirrored[k], 2);
      plain_norm += std::pow(plain[k], 2);
      mirrored_norm += std::pow(mirrored[k], 2);
    }
    norms += (std::sqrt(plain_norm) + std::sqrt(mirrored_norm)) / 2;
    for (std::size_t k = 0; k < 4; ++k) {
      sides[i % 2].push_back(static_cast<float>((plain[k] + mirrored[k]) / std::sqrt(norm)));
    }
  }
  const VerificationResult expected = verify_pairs(sides[0], sides[1], kDimension, set_.same);
  const VerificationResult found = evaluate_on(1);
  EXPECT_EQ(found.name, "waves");
  EXPECT_EQ(found.pairs, 11);
  EXPECT_EQ(found.accuracy, expected.accuracy);
  EXPECT_EQ(found.threshold, expected.threshold);
  EXPECT_NEAR(found.embedding_norm, norms / 22, 1e-4 * norms);
  EXPECT_GT(found.seconds, 0);
}

TEST_F(Evaluation, IsTheSameOnAnyNumberOfWorkers) {
  const VerificationResult one = evaluate_on(1);
  EXPECT_EQ(embedded_, 2 * 8) << "22 images in batches of 3, twice";
  for (const int world_size : {2, 3, 5, 30}) {
    const VerificationResult many = evaluate_on(world_size);
    EXPECT_EQ(many.accuracy, one.accuracy);
    EXPECT_EQ(many.deviation, one.deviation);
    EXPECT_EQ(many.embedding_norm, one.embedding_norm);
    EXPECT_EQ(figures(many), figures(one));
  }
  EXPECT_EQ(embedded_, 2 * 22) << "each worker embeds only its own image, some have none";
}

TEST_F(Evaluation, FailsWithTheSameErrorOnAllWorkersIfAnImageIsDamaged) {
  set_.images[13].resize(20);
  for (const int world_size : {1, 3}) {
    EXPECT_THAT(
        message_of<InputError>([&] { evaluate_on(world_size); }),
        HasSubstr("data/waves.bin: image 13 (the second of pair 6): a PNG that cannot be read"));
  }
}

TEST_F(Evaluation, ResizesAnImageOfAnotherSize) {
  set_.images[4] = encode_png(draw_waves(9, 7, 1), 9, 7);
  EXPECT_NO_THROW(evaluate_on(2));
}

TEST_F(Evaluation, ChecksAShareOfTheImagesOnEachWorker) {
  std::vector<std::string> told;
  const auto listen = [&](const std::string& what) { told.push_back(what); };
  EXPECT_NO_THROW(check_verification_set(set_, {0, 22}, kOptions, listen));
  EXPECT_THAT(told, ElementsAre("checking evaluation set waves: 0 of 22 images"));
  set_.images[13].resize(20);
  EXPECT_NO_THROW(check_verification_set(set_, shard_of(22, 0, 2), kOptions));
  EXPECT_THAT(
      message_of<InputError>([&] { check_verification_set(set_, shard_of(22, 1, 2), kOptions); }),
      HasSubstr("data/waves.bin: image 13 (the second of pair 6): a PNG that cannot be read"));
}

TEST_F(Evaluation, NeedsTwoPairs) {
  set_.images.resize(2);
  set_.same.resize(1);
  EXPECT_THAT(message_of<InputError>([&] { evaluate_on(1); }), HasSubstr("found 1 pairs"));
  EXPECT_THAT(message_of<InputError>([&] {
                check_verification_set(set_, {0, 2}, kOptions);
              }),
              HasSubstr("data/waves.bin: found 1 pairs, expected at least 2"));
}

TEST_F(Evaluation, NeedsPairsOfBothKinds) {
  for (const auto& [same, people] : {std::pair{true, "one person"}, {false, "two people"}}) {
    set_.same.assign(set_.same.size(), same);
    EXPECT_THAT(message_of<InputError>([&] {
                  check_verification_set(set_, {0, 22}, kOptions);
                }),
                HasSubstr(std::string("data/waves.bin: all 11 pairs are of ") + people));
  }
}

/// 22 images of 6 classes. The last class has one image.
class Retrieval : public Evaluation {
 protected:
  Retrieval() {
    set_.same.clear();
    std::string list;
    for (std::size_t i = 0; i < set_.images.size(); ++i) {
      const std::string name = std::to_string(i) + ".png";
      const auto& image = set_.images[i];
      testing::write_file(folder_ / name,
                          {reinterpret_cast<const char*>(image.data()), image.size()});
      list +=
          std::to_string(i) + "\t" + std::to_string(i == 21 ? 5 : i / 2 % 5) + "\t" + name + "\n";
    }
    testing::write_file(folder_ / "train.lst", list);
    sets_ = open_evaluation_sets({folder_.path().string()}, {}, kSide);
  }

  const TemporaryFolder folder_;
  EvaluationSets sets_;
};

TEST_F(Retrieval, IsTheSameOnAnyNumberOfWorkers) {
  const RetrievalResult one = evaluate_on(1, sets_.retrieval.at(0));
  EXPECT_EQ(one.name, folder_.path().filename());
  EXPECT_EQ(one.images, 22);
  EXPECT_EQ(one.queries, 21) << "the only image of its class is not a query";
  EXPECT_GT(one.recalls[0], 0);
  EXPECT_LT(one.recalls[0], one.recalls[1]);
  EXPECT_EQ(one.recalls[2], 1);
  EXPECT_EQ(one.precisions[0], one.recalls[0]);
  // A query has 3 or 4 mates, and all of them are among the 21 other images: the classes have 5, 4,
  // 4, 4 and 4 images.
  EXPECT_DOUBLE_EQ(one.precisions[2], (5 * 4 + 4 * 4 * 3) / 21. / 100);
  for (const int world_size : {2, 3, 30}) {
    EXPECT_EQ(figures(evaluate_on(world_size, sets_.retrieval[0])), figures(one));
  }
}

TEST_F(Retrieval, NamesADamagedImageOnAllWorkers) {
  testing::write_file(folder_ / "13.png", "not a PNG");
  for (const int world_size : {1, 3}) {
    EXPECT_THAT(message_of<InputError>([&] { evaluate_on(world_size, sets_.retrieval.at(0)); }),
                HasSubstr("retrieval set " + folder_.path().string() + ": " +
                          (folder_ / "13.png").string()));
  }
}

/// A training set of four classes, and labelled images to classify.
class Classification : public ::testing::Test {
 protected:
  static constexpr int kImagesOfClass = 8;

  /// Writes a folder that has a folder with `images` photographs for each of `classes`.
  static void write(const std::filesystem::path& folder, const std::vector<std::string>& classes,
                    int images) {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      std::filesystem::create_directories(folder / classes[c]);
      for (int i = 0; i < images; ++i) {
        const auto image = encode_png(draw_waves(12, 16, static_cast<unsigned>(c + 5 * i)), 12, 16);
        testing::write_file(folder / classes[c] / (std::to_string(i) + ".png"),
                            {reinterpret_cast<const char*>(image.data()), image.size()});
      }
    }
  }

  Classification() {
    write(folder_ / "train", {"a", "b", "c", "d"}, 1);
    write(folder_ / "val", {"b", "d"}, kImagesOfClass);
    training_ = open_images(folder_ / "train", kSide, {});
  }
  ClassificationSet open(const char* name, std::int64_t resize = 0) const {
    return open_classification_set(folder_ / name, *training_, resize);
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Dataset> training_;
};

TEST_F(Classification, FindsClassesByName) {
  const ClassificationSet set = open("val");
  EXPECT_EQ(set.name, "val");
  std::vector<std::int64_t> expected(kImagesOfClass, 1);
  expected.resize(2 * kImagesOfClass, 3);
  EXPECT_EQ(set.labels, expected);
  write(folder_ / "other", {"b", "e"}, 1);
  EXPECT_THAT(message_of<InputError>([&] { open("other"); }),
              HasSubstr("its class \"e\" is none of the 4 classes of rec"));
}

TEST_F(Classification, FindsClassesByNumberIfOneSideHasNoNames) {
  testing::write_file(folder_ / "val.tsv", "val/b/0.png\t2\nval/d/0.png\t0\n");
  EXPECT_THAT(open("val.tsv").labels, ElementsAre(2, 0));
  testing::write_file(folder_ / "val.tsv", "val/b/0.png\t4\nval/d/0.png\t0\n");
  EXPECT_THAT(message_of<InputError>([&] { open("val.tsv"); }),
              HasSubstr("its class 4 is none of the 4 classes of rec"));
}

TEST_F(Classification, FindsClassesByNameIfSomeHaveNoName) {
  testing::write_file(folder_ / "val.tsv", "val/b/0.png\t0\nval/d/0.png\t1\n");
  testing::write_file(folder_ / "identities.txt", "\nb\n");
  EXPECT_THAT(message_of<InputError>([&] { open("val.tsv"); }),
              HasSubstr("its class 0 is none of the 4 classes of rec"));
  testing::write_file(folder_ / "val.tsv", "val/b/0.png\t1\nval/b/1.png\t1\n");
  EXPECT_THAT(open("val.tsv").labels, ElementsAre(1, 1));
}

TEST_F(Classification, RefusesTwoClassesWithOneName) {
  testing::write_file(folder_ / "train.tsv", "train/a/0.png\t0\ntrain/b/0.png\t1\n");
  testing::write_file(folder_ / "identities.txt", "b\nb\n");
  training_ = open_images(folder_ / "train.tsv", kSide, {});
  EXPECT_THAT(message_of<InputError>([&] { open("val"); }),
              HasSubstr("found the name \"b\" for two classes of rec, 0 and 1"));
}

TEST_F(Classification, SetsOfTheSameFolderNameGetTheNameOfTheParent) {
  write(folder_ / "x/val", {"b"}, 1);
  JobConfig job;
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& set : open_evaluation_sets(job, *training_).classification) {
      found.push_back(set.name);
    }
    return found;
  };
  job.val_targets = {};
  job.val_rec = {folder_ / "x/val", folder_ / "val/"};
  EXPECT_THAT(names(), ElementsAre("x/val", folder_.path().filename().string() + "/val"));
  job.val_rec = {folder_ / "train", folder_ / "val"};
  EXPECT_THAT(names(), ElementsAre("train", "val"));
  job.val_rec = {folder_ / "val", folder_ / "val"};
  EXPECT_THAT(message_of<InputError>(names), HasSubstr("/val in the results; remove one"));
}

TEST_F(Classification, RefusesAResizeBelowTheNetworksImages) {
  EXPECT_NO_THROW(open("val", kSide));
  EXPECT_THAT(message_of<InputError>([&] { open("val", kSide - 1); }),
              HasSubstr("val_resize: found 7, expected 0 or at least the side of the network's"));
}

/// An image is embedded from its central pixels. The score of class c is number c of the embedding.
TEST_F(Classification, ComparesTheCentresOfImagesWithTheClassesOfAllWorkers) {
  write(folder_ / "all", {"a", "b", "c", "d"}, kImagesOfClass);
  const ClassificationSet set = open("all", kSide);
  std::vector<double> expected(kTopRanks.size());
  double norms = 0;
  constexpr int kImages = 4 * kImagesOfClass;
  for (std::int64_t i = 0; i < kImages; ++i) {
    std::vector<std::uint8_t> rgb(kSide * kSide * 3);
    ImageDecoder decoder;
    ImageBuffer buffer;
    decoder.decode_centre(set.dataset->read(i, buffer).encoded, kSide, {kSide, kSide}, rgb);
    const auto scores = embed_one(rgb);
    const float own = scores[static_cast<std::size_t>(set.labels[static_cast<std::size_t>(i)])];
    const auto rank = std::ranges::count_if(scores, [&](float score) { return score >= own; });
    for (std::size_t k = 0; k < kTopRanks.size(); ++k) expected[k] += rank <= kTopRanks[k];
    norms += std::sqrt(std::inner_product(scores.begin(), scores.end(), scores.begin(), 0.0));
  }
  for (const int workers : {1, 2, 4}) {
    run_ranks(workers, [&](Comm& comm) {
      EmbedOptions options = kOptions;
      options.flip = false;
      const EmbedBatch embed = [&](std::span<const std::uint8_t> images, std::span<float> out) {
        for (std::size_t i = 0; i < 3; ++i) {
          const auto one = embed_one(images.subspan(i * kSide * kSide * 3, kSide * kSide * 3));
          std::ranges::copy(one, out.begin() + static_cast<std::ptrdiff_t>(4 * i));
        }
      };
      const ClassLayer layer{
          .classes = shard_of(4, comm.rank(), workers),
          .read = [](RowRange classes, std::span<float> rows) {
            std::ranges::fill(rows, 0.f);
            for (std::int64_t c = classes.begin; c < classes.end; ++c) {
              rows[static_cast<std::size_t>((c - classes.begin) * kDimension + c)] = 0.5f;
            }
          }};
      const ClassificationResult found = evaluate(set, comm, embed, options, layer);
      EXPECT_EQ(found.images, kImages);
      EXPECT_EQ(found.top[0], expected[0] / kImages);
      EXPECT_EQ(found.top[1], 1);
      EXPECT_NEAR(found.embedding_norm, norms / kImages, 1e-5 * norms);
    });
  }
  EXPECT_GT(expected[0], 0);
  EXPECT_LT(expected[0], kImages);
}

TEST_F(Classification, NamesADamagedImage) {
  testing::write_file(folder_ / "val/d/1.png", "not a PNG");
  const ClassificationSet set = open("val");
  EXPECT_NO_THROW(check_classification_set(set, {0, kImagesOfClass}, kOptions));
  EXPECT_THAT(message_of<InputError>([&] {
                check_classification_set(set, {kImagesOfClass, 2 * kImagesOfClass}, kOptions);
              }),
              HasSubstr((folder_ / "val/d/1.png").string()));
}

/// Returns the bytes that one worker allocates to evaluate the set with wide embeddings.
template <typename Set>
double bytes_taken(const Set& set, const EmbedOptions& wide) {
  double taken = 0;
  run_ranks(1, [&](Comm& comm) {
    const EmbedBatch embed = [](std::span<const std::uint8_t>, std::span<float> out) {
      std::iota(out.begin(), out.end(), 1.f);
    };
    const std::size_t before = testing::bytes_of_new();
    evaluate(set, comm, embed, wide);
    taken = static_cast<double>(testing::bytes_of_new() - before);
  });
  return taken;
}

constexpr EmbedOptions kWide{.batch = 3, .height = kSide, .width = kSide, .embedding_size = 20'000};

TEST_F(Retrieval, UsesAtMostTheStatedMemory) {
  const double taken = bytes_taken(sets_.retrieval.at(0), kWide);
  // The worker frees its own rows before it copies all rows for the search. `taken` includes both.
  EXPECT_NEAR(static_cast<double>(retrieval_bytes(22, 1, kWide)),
              taken - 22 * 20'001 * sizeof(float), 0.02 * taken);
}

TEST_F(Evaluation, UsesTheStatedMemory) {
  const double taken = bytes_taken(set_, kWide);
  EXPECT_NEAR(static_cast<double>(evaluation_bytes(22, 1, kWide)), taken, 0.02 * taken);
}

}  // namespace
}  // namespace pfc
