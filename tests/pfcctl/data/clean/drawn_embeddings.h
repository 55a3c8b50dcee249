// Drawn embeddings: unit vectors around random centres.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/array_files.h"
#include "tests/support/files.h"

namespace pfc::testing {

using Vector = std::vector<float>;

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

inline Vector unit(Vector v) {
  const double length = std::sqrt(dot(v, v));
  for (float& x : v) x = static_cast<float>(x / length);
  return v;
}

/// A data set of embeddings of 64 numbers.
class DrawnEmbeddings {
 public:
  static constexpr std::size_t kSize = 64;
  explicit DrawnEmbeddings(unsigned seed) : random_(seed) {}

  /// Returns a random direction.
  Vector direction() {
    Vector v(kSize);
    for (float& x : v) x = normal_(random_);
    return unit(std::move(v));
  }
  /// Returns a unit vector with this cosine to `centre`.
  Vector near(const Vector& centre, double cosine) {
    Vector aside = direction();
    const double along = dot(aside, centre);
    for (std::size_t i = 0; i < kSize; ++i) aside[i] -= static_cast<float>(along * centre[i]);
    aside = unit(std::move(aside));
    const double sine = std::sqrt(1 - cosine * cosine);
    for (std::size_t i = 0; i < kSize; ++i) {
      aside[i] = static_cast<float>(cosine * centre[i] + sine * aside[i]);
    }
    return unit(std::move(aside));
  }
  /// Adds an image, and returns its number.
  std::int64_t add(const Vector& embedding, std::int64_t label) {
    rows.push_back(embedding);
    labels.push_back(label);
    return std::ssize(labels) - 1;
  }
  /// Adds images of a person. Their cosines to the person's centre are 0.82 to 0.94.
  void add_person(const Vector& centre, std::int64_t label, int images) {
    std::uniform_real_distribution<double> cosine(0.82, 0.94);
    for (int i = 0; i < images; ++i) add(near(centre, cosine(random_)), label);
  }
  /// Adds people with labels first, first + 1 ...; returns their centres.
  std::vector<Vector> add_people(std::int64_t first, int people, int images) {
    std::vector<Vector> centres;
    for (int p = 0; p < people; ++p) {
      centres.push_back(direction());
      add_person(centres.back(), first + p, images);
    }
    return centres;
  }

  /// Writes embeddings.npy and labels.npy, with lengths other than 1.
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::vector<float> numbers;
    for (const Vector& row : rows) {
      for (const float x : row) numbers.push_back(3 * x);
    }
    const std::string n = std::to_string(rows.size());
    write_file(folder / "embeddings.npy", npy("<f4", "(" + n + ", 64)", bytes_of_numbers(numbers)));
    write_file(folder / "labels.npy", npy("<i8", "(" + n + ",)", bytes_of_numbers(labels)));
  }

  std::vector<Vector> rows;
  std::vector<std::int64_t> labels;

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace pfc::testing
