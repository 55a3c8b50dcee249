// Writes checkpoints of small workers to a folder that is deleted with the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/checkpoint/checkpoint_world.h"
#include "tests/worker/trained.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {

class Checkpoint : public ::testing::Test {
 protected:
  using Writers = std::vector<std::unique_ptr<CheckpointWriter>>;

  Checkpoint() { std::filesystem::create_directories(output_); }

  Writers writers(int world_size, Generation generation = 1, std::int64_t keep = 3,
                  const RemoveFolder& remove = {}) const {
    Writers all;
    for (int rank = 0; rank < world_size; ++rank) {
      all.push_back(make_checkpoint_writer(
          {.output = output_,
           .job_id = "job",
           .membership = {.rank = rank, .world_size = world_size, .generation = generation},
           .keep = keep,
           .global_batch = 256,
           .remove = remove}));
    }
    return all;
  }

  /// Lets every worker write the state of `step`, and rank 0 publish it.
  static void save(Writers& all, std::int64_t step, const WorldOptions& options = {},
                   CheckpointMode mode = CheckpointMode::kCopy) {
    const int world_size = static_cast<int>(all.size());
    for (int rank = 0; rank < world_size; ++rank) begin(all, rank, step, options, mode);
    for (auto& writer : all) writer->wait();
    all[0]->publish(step);
  }
  static void begin(Writers& all, int rank, std::int64_t step, const WorldOptions& options = {},
                    CheckpointMode mode = CheckpointMode::kCopy) {
    SmallWorker worker(rank, static_cast<int>(all.size()), options);
    worker.fill(static_cast<int>(step));
    all[static_cast<std::size_t>(rank)]->begin(worker.state(), testing::trained_with(step, 256),
                                               worker.job(), mode);
  }

  /// Loads the newest checkpoint into every worker of a world. Expects the state of `step`.
  void expect_loads(int world_size, std::int64_t step, const WorldOptions& options = {}) const {
    const auto newest = newest_checkpoint(output_);
    ASSERT_TRUE(newest.has_value());
    EXPECT_EQ(newest->trained.step, step);
    for (int rank = 0; rank < world_size; ++rank) {
      SmallWorker worker(rank, world_size, options);
      load_checkpoint(newest->folder, worker.state());
      EXPECT_EQ(worker.differences(static_cast<int>(step)), 0) << "rank " << rank;
      EXPECT_EQ(worker.head.changes, 1);
    }
  }
  void empty_output() const {
    std::filesystem::remove_all(output_);
    std::filesystem::create_directories(output_);
  }
  [[nodiscard]] std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(output_)) {
      names.insert(e.path().filename().string());
    }
    return names;
  }
  [[nodiscard]] std::string load_error(std::int64_t step, const WorldOptions& options = {}) const {
    SmallWorker worker(0, 1, options);
    worker.fill(77);
    const auto before = worker.differences(77);
    const std::string message =
        testing::message_of<InputError>([&] { load_checkpoint(folder(step), worker.state()); });
    EXPECT_EQ(worker.differences(77), before) << "the failed load changed the centres";
    return message;
  }
  [[nodiscard]] std::filesystem::path folder(std::int64_t step) const {
    return output_ / ("step-00000000" + std::to_string(step));
  }
  static void flip_a_byte(const std::filesystem::path& path) {
    auto bytes = testing::read_file(path);
    bytes[bytes.size() - 5] ^= std::byte{1};
    testing::write_file(path, bytes);
  }

  TemporaryFolder temporary_;
  const std::filesystem::path output_ = temporary_ / "deep/output";
};

}  // namespace pfc
