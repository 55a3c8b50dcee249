// Compares the found errors with a search that compares everything with everything.
#include "pfcctl/data/clean/finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "common/error.h"
#include "data/open_dataset.h"
#include "pfcctl/data/clean/identity_centres.h"
#include "tests/pfcctl/data/clean/drawn_embeddings.h"
#include "tests/pfcctl/data/clean/noise_images.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

/// What a finding says, without evidence.
using Said = std::tuple<FindingKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Said said(const Finding& f) {
  return {f.kind, f.image, f.other_image, f.identity, f.other_identity};
}

std::vector<float> joined_rows(const std::vector<Vector>& rows) {
  std::vector<float> all;
  for (const Vector& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

TEST(AgreeingRows, LeavesOutRowsOfOtherPeople) {
  DrawnEmbeddings drawn(1);
  const Vector centre = drawn.direction();
  drawn.add(drawn.direction(), 0);
  drawn.add_person(centre, 0, 4);
  drawn.add(drawn.direction(), 0);
  const AgreeingRows of = agreeing_rows(joined_rows(drawn.rows), 64, 0.45);
  EXPECT_EQ(of.kept, (std::vector<bool>{false, true, true, true, true, false}));
  ASSERT_EQ(of.count, 4u);
  for (std::size_t i = 0; i < 6; ++i) {
    double sum = 0, others = 0;
    for (std::size_t j = 1; j < 5; ++j) {
      if (j == i) continue;
      sum += dot(drawn.rows[i], drawn.rows[j]);
      ++others;
    }
    EXPECT_NEAR(of.similarity[i], sum / others, 1e-5) << i;
  }
}

TEST(AgreeingRows, KeepTheFirstOfTwoThatDisagree) {
  DrawnEmbeddings drawn(2);
  const Vector one = drawn.direction(), two = drawn.direction();
  const AgreeingRows single = agreeing_rows(one, 64, 0.5);
  EXPECT_EQ(single.count, 1u);
  EXPECT_EQ(single.similarity, std::vector<float>{1});
  const AgreeingRows pair = agreeing_rows(joined_rows({one, two}), 64, 0.5);
  EXPECT_EQ(pair.kept, (std::vector<bool>{true, false}));
  EXPECT_NEAR(pair.similarity[0], dot(one, two), 1e-5);
  EXPECT_NEAR(pair.similarity[1], dot(one, two), 1e-5);
}

TEST(AgreeingRows, KeepTheLargerOfTwoPeople) {
  DrawnEmbeddings drawn(3);
  drawn.add_people(0, 2, 3);
  drawn.add_person(drawn.rows[4], 0, 2);
  const AgreeingRows of = agreeing_rows(joined_rows(drawn.rows), 64, 0.4);
  EXPECT_EQ(of.kept, (std::vector<bool>{false, false, false, true, true, true, true, true}));
}

/// 60 people with errors of all kinds. Label 60 has no image.
class Find : public ::testing::Test {
 protected:
  Find() : drawn_(7), centres_(drawn_.add_people(0, 60, 6)) {
    wrong_ = drawn_.add(drawn_.near(centres_[3], 0.9), 4);
    stranger_ = drawn_.add(drawn_.direction(), 5);
    drawn_.add_person(centres_[10], 61, 3);        // one person, two labels
    drawn_.add_person(drawn_.direction(), 20, 4);  // one label, two people
    copy_ = drawn_.add(drawn_.near(drawn_.rows[30 * 6], 0.995), 30);
    moved_copy_ = drawn_.add(drawn_.near(drawn_.rows[40 * 6], 0.995), 50);
    drawn_.add(drawn_.direction(), 62);  // a person with one image
    drawn_.add_person(centres_[15], 63, 1);
    drawn_.add(drawn_.near(centres_[16], 0.9), 64);  // a person with two images
    drawn_.add(drawn_.direction(), 64);
  }

  /// Opens the set; labels from `first_test` are those of the test set.
  void open(std::int64_t first_test = 1000) {
    drawn_.write(folder_.path());
    dataset_ = open_dataset({.rec = folder_.path()});
    labels_ = {.of_image = drawn_.labels, .is_test = {}, .copies = {}};
    for (std::int64_t i = 0; i < dataset_->info().classes; ++i) {
      labels_.is_test.push_back(i >= first_test);
    }
  }
  FoundErrors find(int threads = 2, Thumbnails* thumbnails = nullptr) {
    const LabelledEmbeddings set(*dataset_, labels_);
    return find_errors(set, image_thresholds(set, threads), threads, thumbnails);
  }
  std::set<Said> found(FindingKind kind, Thumbnails* thumbnails = nullptr) {
    std::set<Said> all;
    for (const Finding& f : find(2, thumbnails).findings) {
      if (f.kind == kind) all.insert(said(f));
    }
    return all;
  }

  TemporaryFolder folder_;
  DrawnEmbeddings drawn_;
  const std::vector<Vector> centres_;
  std::int64_t wrong_ = 0, stranger_ = 0, copy_ = 0, moved_copy_ = 0;
  std::unique_ptr<Dataset> dataset_;
  ImageLabels labels_;
};

TEST_F(Find, ReportsWhereImagesWithWrongLabelsBelong) {
  open();
  EXPECT_EQ(
      found(FindingKind::kWrongLabel),
      (std::set<Said>{{FindingKind::kWrongLabel, wrong_, -1, 4, 3},
                      {FindingKind::kWrongLabel, moved_copy_, -1, 50, 40},
                      {FindingKind::kWrongLabel, std::ssize(drawn_.labels) - 2, -1, 64, 16}}));
}

TEST_F(Find, ReportsStrangers) {
  open();
  EXPECT_EQ(found(FindingKind::kStranger),
            (std::set<Said>{{FindingKind::kStranger, stranger_, -1, 5, -1}}));
}

TEST_F(Find, ReportsTwoIdentitiesOfOnePerson) {
  open();
  EXPECT_EQ(found(FindingKind::kSamePerson),
            (std::set<Said>{{FindingKind::kSamePerson, -1, -1, 10, 61},
                            {FindingKind::kSamePerson, -1, -1, 15, 63}}));
}

TEST_F(Find, ReportsOneIdentityOfTwoPeople) {
  open();
  const FoundErrors all = find();
  const auto f = std::ranges::find(all.findings, FindingKind::kTwoPeople, &Finding::kind);
  ASSERT_NE(f, all.findings.end());
  EXPECT_EQ(f->identity, 20);
  EXPECT_EQ(f->images.size(), 4u);
  for (const std::int64_t image : f->images) EXPECT_GE(image, wrong_);
}

TEST_F(Find, ReportsDuplicatesAlsoUnderAWrongLabel) {
  open();
  EXPECT_EQ(found(FindingKind::kDuplicate),
            (std::set<Said>{{FindingKind::kDuplicate, copy_, 30 * 6, 30, 30},
                            {FindingKind::kDuplicate, moved_copy_, 40 * 6, 50, 40}}));
}

TEST_F(Find, ReportsOnlyDuplicatesWithTheSamePixels) {
  const std::int64_t second = drawn_.add(drawn_.near(drawn_.rows[30 * 6], 0.97), 30);
  open();
  std::vector<unsigned> seeds = different_seeds(drawn_.labels.size());
  for (const std::int64_t copy : {moved_copy_, second}) {  // copy_ is another image
    seeds[static_cast<std::size_t>(copy)] = copy == second ? 30 * 6 : 40 * 6;
  }
  const NoiseImages images(seeds);
  Thumbnails thumbnails(images);
  EXPECT_EQ(found(FindingKind::kDuplicate, &thumbnails),
            (std::set<Said>{{FindingKind::kDuplicate, second, 30 * 6, 30, 30},
                            {FindingKind::kDuplicate, moved_copy_, 40 * 6, 50, 40}}));
}

TEST_F(Find, TakesThePixelsOfAPlantedCopyFromItsSource) {
  open();
  labels_.copies.push_back({.source = 25 * 6, .cosine = 0.99, .seed = 1});
  labels_.of_image.push_back(25);
  const NoiseImages images(different_seeds(drawn_.labels.size()));
  Thumbnails thumbnails(images);
  EXPECT_EQ(found(FindingKind::kDuplicate, &thumbnails),
            (std::set<Said>{{FindingKind::kDuplicate, std::ssize(drawn_.labels), 25 * 6, 25, 25}}));
}

TEST_F(Find, ReportsPeopleOfTheTestSet) {
  drawn_.add_person(centres_[33], 65, 3);
  const std::int64_t test_image = drawn_.add(drawn_.near(drawn_.rows[35 * 6], 0.995), 66);
  drawn_.add(drawn_.direction(), 65);  // a stranger in the test set
  open(65);
  EXPECT_EQ(found(FindingKind::kLeaked), (std::set<Said>{{FindingKind::kLeaked, -1, -1, 33, 65},
                                                         {FindingKind::kLeaked, -1, -1, 35, 66}}));
  EXPECT_EQ(found(FindingKind::kStranger).size(), 1u);
  EXPECT_TRUE(found(FindingKind::kDuplicate)
                  .contains({FindingKind::kDuplicate, 35 * 6, test_image, 35, 66}));
}

TEST_F(Find, ReportsNothingInASetWithoutErrors) {
  drawn_ = DrawnEmbeddings(9);
  drawn_.add_people(0, 200, 6);
  open();
  EXPECT_TRUE(find().findings.empty());
}

TEST_F(Find, DoesNotDependOnTheNumberOfThreads) {
  open();
  const auto one = find(1).findings;
  for (const int threads : {2, 5}) {
    const auto other = find(threads).findings;
    ASSERT_EQ(other.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(said(other[i]), said(one[i]));
      EXPECT_EQ(other[i].score, one[i].score);
    }
  }
}

TEST_F(Find, SetsThresholdsBetweenTheDistributions) {
  open();
  const CleaningThresholds t = find().thresholds;
  // Two images of a person have cosines of about 0.88^2, images of two people of about 0.
  EXPECT_GT(t.same, 0.3);
  EXPECT_LT(t.same, 0.65);
  EXPECT_GT(t.nearest, 0.3);
  EXPECT_LT(t.nearest, 0.85);
  EXPECT_GT(t.belongs, 0.3);
  EXPECT_LT(t.belongs, 0.85);
  EXPECT_GT(t.duplicate, 0.85);
  EXPECT_LT(t.duplicate, 0.99);
}

TEST_F(Find, SetsThresholdsWithoutTheTestSet) {
  open();
  const CleaningThresholds expected = find().thresholds;
  for (int person = 0; person < 100; ++person) {  // each is four identities of the test set
    const Vector centre = drawn_.direction();
    for (int i = 0; i < 4; ++i) drawn_.add_person(centre, 65 + 4 * person + i, 2);
  }
  open(65);
  const CleaningThresholds t = find().thresholds;
  EXPECT_NEAR(t.nearest, expected.nearest, 1e-6);
  EXPECT_NEAR(t.belongs, expected.belongs, 1e-6);
}

TEST_F(Find, FailsIfThereAreTooFewPeople) {
  drawn_ = DrawnEmbeddings(9);
  drawn_.add_people(0, 29, 3);
  drawn_.add_people(29, 100, 2);
  open();
  EXPECT_THAT(message_of<InputError>([&] { find(); }),
              ::testing::HasSubstr("found 29 identities with at least 3 usable images"));
}

TEST(NearestThreshold, IsExceededByAboutFivePercentAndNotByMoreIfManyPeopleHaveTwoIdentities) {
  for (const std::size_t dimension : {8u, 64u}) {
    for (const double part_with_two : {0.0, 0.4}) {
      std::mt19937_64 random(5);
      std::normal_distribution<float> normal;
      std::vector<Vector> centres;
      for (int i = 0; i < 2000; ++i) {
        Vector centre(dimension);
        for (float& x : centre) x = normal(random);
        centres.push_back(unit(centre));
      }
      const auto twins = static_cast<std::size_t>(part_with_two * 2000);
      std::vector<double> second;
      std::size_t exceeding = 0;
      std::vector<double> nearest;
      for (std::size_t i = 0; i < centres.size(); ++i) {
        std::vector<double> cosines;
        for (std::size_t j = 0; j < centres.size(); ++j) {
          if (j != i) cosines.push_back(dot(centres[i], centres[j]));
        }
        std::ranges::partial_sort(cosines, cosines.begin() + 2, std::greater<>());
        nearest.push_back(cosines[0]);
        second.push_back(
            cosines[i < twins ? 0 : 1]);  // a twin would be the nearest, and cosines[0] the second
      }
      const double threshold = nearest_threshold(second);
      for (const double cosine : nearest) exceeding += cosine > threshold ? 1 : 0;
      EXPECT_LE(exceeding, 120u) << dimension << " " << part_with_two;
      EXPECT_GE(exceeding, part_with_two == 0 ? 50u : 0u) << dimension;
    }
  }
}

/// Finds pairs and single images by exhaustive comparison of all centres and images.
class Exhaustive {
 public:
  Exhaustive(const DrawnEmbeddings& drawn, const CleaningThresholds& t) : drawn_(drawn), t_(t) {
    for (std::int64_t i = 0; i < std::ssize(drawn.labels); ++i) members_[label(i)].push_back(i);
    for (const auto& [identity, images] : members_) {
      std::vector<Vector> rows;
      for (const std::int64_t image : images) rows.push_back(row(image));
      of_[identity] = agreeing_rows(joined_rows(rows), 64, t.same);
      centres_[identity] = unit(of_[identity].mean);
    }
  }

  [[nodiscard]] std::set<Said> same_person() const {
    std::set<Said> found;
    for (const auto& [a, images] : members_) {
      for (const auto& [b, others] : members_) {
        if (a < b && dot(centres_.at(a), centres_.at(b)) >= t_.nearest && most_near(a, b) &&
            most_near(b, a)) {
          found.insert({FindingKind::kSamePerson, -1, -1, a, b});
        }
      }
    }
    return found;
  }

  [[nodiscard]] std::set<Said> wrong_labels() const {
    std::set<Said> found;
    for (const auto& [identity, images] : members_) {
      for (std::size_t i = 0; i < images.size(); ++i) {
        const double own = of_.at(identity).similarity[i];
        if (own >= t_.same) continue;
        const auto nearest = std::ranges::max_element(centres_, {}, [&](const auto& centre) {
          return centre.first == identity ? -2 : dot(centre.second, row(images[i]));
        });
        const double cosine = dot(nearest->second, row(images[i]));
        const Vector& mean = of_.at(nearest->first).mean;
        const double similarity = cosine * std::sqrt(dot(mean, mean));
        if (cosine >= t_.belongs && similarity > std::max(own, t_.same)) {
          found.insert({FindingKind::kWrongLabel, images[i], -1, identity, nearest->first});
        }
      }
    }
    return found;
  }

  /// Returns all pairs of near duplicates.
  [[nodiscard]] std::set<std::pair<std::int64_t, std::int64_t>> duplicates() const {
    std::set<std::pair<std::int64_t, std::int64_t>> found;
    for (std::int64_t i = 0; i < std::ssize(drawn_.labels); ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        if (dot(row(i), row(j)) >= t_.duplicate) found.insert({j, i});
      }
    }
    return found;
  }

 private:
  [[nodiscard]] std::int64_t label(std::int64_t i) const {
    return drawn_.labels[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] const Vector& row(std::int64_t i) const {
    return drawn_.rows[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] bool most_near(std::int64_t identity, std::int64_t other) const {
    const AgreeingRows& of = of_.at(identity);
    std::size_t near = 0, counted = 0;
    for (std::size_t i = 0; i < of.kept.size(); ++i) {
      if (!of.kept[i] && of.count > 1) continue;
      ++counted;
      near += dot(row(members_.at(identity)[i]), of_.at(other).mean) >= t_.same ? 1 : 0;
    }
    return 2 * near > counted;
  }

  const DrawnEmbeddings& drawn_;
  const CleaningThresholds t_;
  std::map<std::int64_t, std::vector<std::int64_t>> members_;
  std::map<std::int64_t, AgreeingRows> of_;
  std::map<std::int64_t, Vector> centres_;
};

TEST_F(Find, ReportsTheSameAsAnExhaustiveSearch) {
  drawn_ = DrawnEmbeddings(11);
  const auto centres = drawn_.add_people(0, 150, 5);
  drawn_.add_people(150, 40, 2);
  std::mt19937 random(3);
  for (std::size_t i = 0; i < drawn_.labels.size(); i += 1 + random() % 9) {
    drawn_.labels[i] = static_cast<std::int64_t>(random() % 150);
  }
  for (std::int64_t i = 0; i < 12; ++i) {
    drawn_.add_person(centres[static_cast<std::size_t>(i)], 190 + i, 1 + static_cast<int>(i) % 4);
    const auto source = random() % drawn_.rows.size();
    drawn_.add(drawn_.near(drawn_.rows[source], 0.99),
               i % 2 == 0 ? drawn_.labels[source] : static_cast<std::int64_t>(random() % 150));
  }
  open();
  const FoundErrors all = find();
  const Exhaustive exhaustive(drawn_, all.thresholds);
  EXPECT_EQ(found(FindingKind::kSamePerson), exhaustive.same_person());
  std::set<Said> wrong = found(FindingKind::kWrongLabel);
  EXPECT_GT(wrong.size(), 50u);
  EXPECT_EQ(wrong, exhaustive.wrong_labels());
  const auto pairs = exhaustive.duplicates();
  std::set<std::int64_t> later, dropped;
  for (const auto& [first, second] : pairs) later.insert(second);
  for (const Said& f : found(FindingKind::kDuplicate)) {
    const auto pair = std::minmax(std::get<1>(f), std::get<2>(f));
    EXPECT_TRUE(pairs.contains(pair));
    dropped.insert(std::get<1>(f));
  }
  EXPECT_EQ(dropped.size(), later.size());
}

}  // namespace
}  // namespace pfc::testing
