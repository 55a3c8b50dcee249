// Tests checkpoints if host b has another folder than host a, which has rank 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/file_size_limit.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"
#include "tests/worker/checkpoint/two_hosts.h"
#include "worker/checkpoint/transfer/fetch_checkpoint.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TwoHosts;

class UnsharedOutput : public Checkpoint {
 protected:
  UnsharedOutput() { std::filesystem::create_directories(other_); }

  [[nodiscard]] std::filesystem::path output_of(const TwoHosts& hosts, int rank) const {
    return hosts.sees(rank) ? output_ : other_;
  }
  /// Lets every worker write the state of `step` to its host's folder, on a thread of its own.
  void save_on(const TwoHosts& hosts, std::int64_t step, const WorldOptions& options = {},
               CheckpointMode mode = CheckpointMode::kCopy) const {
    testing::run_ranks(hosts.workers(), [&](Comm& comm) {
      const OutputLinks links = hosts.links(comm.rank());
      const auto writer = writer_of(hosts, comm, links);
      write(*writer, comm, step, options, mode);
      comm.barrier();
      if (comm.rank() == 0) writer->publish(step);
    });
  }
  [[nodiscard]] std::unique_ptr<CheckpointWriter> writer_of(const TwoHosts& hosts, Comm& comm,
                                                            const OutputLinks& links) const {
    auto writer =
        make_checkpoint_writer({.output = output_of(hosts, comm.rank()),
                                .job_id = "job",
                                .links = &links,
                                .membership = {.rank = comm.rank(), .world_size = hosts.workers()},
                                .global_batch = 256});
    comm.barrier();  // rank 0's writer has removed leftovers of earlier jobs
    return writer;
  }
  static void write(CheckpointWriter& writer, const Comm& comm, std::int64_t step,
                    const WorldOptions& options = {}, CheckpointMode mode = CheckpointMode::kCopy) {
    SmallWorker worker(comm.rank(), comm.size(), options);
    worker.fill(static_cast<int>(step));
    writer.begin(worker.state(), testing::trained_with(step, 256), worker.job(), mode);
    writer.wait();
    EXPECT_EQ(writer.finished_step(), step);
  }
  /// Loads the checkpoint of host a into every worker. Expects the state of `step`.
  void expect_loads_on(const TwoHosts& hosts, std::int64_t step,
                       const WorldOptions& options = {}) const {
    testing::run_ranks(hosts.workers(), [&](Comm& comm) {
      const OutputLinks links = hosts.links(comm.rank());
      SmallWorker worker(comm.rank(), comm.size(), options);
      const CheckpointInfo info =
          load_checkpoint_of_rank_zero(output_of(hosts, comm.rank()) / folder(step).filename(),
                                       worker.state(), {comm, comm, links});
      EXPECT_EQ(info.trained.step, step);
      EXPECT_EQ(info.global_batch, 256);
      EXPECT_EQ(worker.differences(static_cast<int>(step)), 0) << "rank " << comm.rank();
      EXPECT_EQ(worker.head.changes, 1);
    });
  }
  /// Returns the bytes of each file by its path in the output folder.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> files() const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(output_)) {
      if (!entry.is_regular_file()) continue;
      all[std::filesystem::relative(entry.path(), output_).string()] =
          testing::read_file(entry.path());
    }
    return all;
  }

  const std::filesystem::path other_ = temporary_ / "other/output";
};

TEST_F(UnsharedOutput, HoldsTheFilesAndBytesOfASharedOne) {
  for (const CheckpointMode mode : {CheckpointMode::kCopy, CheckpointMode::kInPlace}) {
    Writers shared = writers(4);
    save(shared, 5);
    const auto expected = files();
    empty_output();
    save_on(TwoHosts(4, 2), 5, {}, mode);
    EXPECT_EQ(files(), expected);
    EXPECT_TRUE(std::filesystem::is_empty(other_));
    empty_output();
  }
}

TEST_F(UnsharedOutput, LoadsIntoAnyOtherWorldSize) {
  for (const int from : {1, 2, 5}) {
    Writers all = writers(from);
    save(all, from);
    for (const int to : {2, 3, 4}) {
      for (int on_host_a = 1; on_host_a < to; ++on_host_a) {
        expect_loads_on(TwoHosts(to, on_host_a), from);
      }
    }
    empty_output();
  }
}

TEST_F(UnsharedOutput, KeepsAdamWsSecondMoments) {
  const WorldOptions adamw{.optimizer = OptimizerKind::kAdamW};
  save_on(TwoHosts(3, 1), 5, adamw);
  expect_loads(2, 5, adamw);
  expect_loads_on(TwoHosts(2, 1), 5, adamw);
}

TEST_F(UnsharedOutput, KeepsTheNeighboursOfClasses) {
  const WorldOptions hard{.neighbours = 3};
  save_on(TwoHosts(3, 1), 5, hard);
  expect_loads(2, 5, hard);
  expect_loads_on(TwoHosts(4, 2), 5, hard);
}

TEST_F(UnsharedOutput, WorksWithWorkersWithoutRows) {
  const WorldOptions few{.classes = 3};
  save_on(TwoHosts(5, 1), 5, few);
  expect_loads(2, 5, few);
  expect_loads_on(TwoHosts(5, 1), 5, few);
}

TEST_F(UnsharedOutput, ReadsNothingFromTheFolderOfAnotherHost) {
  Writers all = writers(2);
  save(all, 6);
  // A newer checkpoint under the older one's name.
  std::filesystem::rename(folder(6), other_ / "step-000000005");
  save_on(TwoHosts(2, 1), 5);
  expect_loads_on(TwoHosts(2, 1), 5);
}

TEST_F(UnsharedOutput, KeepsTheLastCheckpointIntactIfTheDiskIsFull) {
  save_on(TwoHosts(3, 2), 5);
  const auto before = files();
  std::vector<std::string> errors(3);
  {
    const TwoHosts hosts(3, 2);
    const FileSizeLimit limit(100);
    testing::run_ranks(3, [&](Comm& comm) {
      const OutputLinks links = hosts.links(comm.rank());
      const auto writer = writer_of(hosts, comm, links);
      errors[static_cast<std::size_t>(comm.rank())] =
          message_of<StorageError>([&] { write(*writer, comm, 6); });
      comm.barrier();
    });
  }
  EXPECT_THAT(errors[0], AllOf(HasSubstr("host a: "), HasSubstr("centres-00002-of-00003")));
  EXPECT_EQ(errors[2], errors[0]) << "the worker without the folder reports the same error";
  EXPECT_EQ(files(), before);
}

TEST_F(UnsharedOutput, KeepsTheLastCheckpointIntactIfAWorkerIsLost) {
  save_on(TwoHosts(3, 1), 5);
  const auto before = files();
  {
    const TwoHosts hosts(3, 1);
    testing::run_ranks(3, [&](Comm& comm) {
      const OutputLinks links = hosts.links(comm.rank());
      const auto writer = writer_of(hosts, comm, links);
      if (comm.rank() == 2) return hosts.lose(2);
      const std::string error = message_of<CommError>([&] {
        write(*writer, comm, 6);
        // Rank 1 may have sent its part without an error. It ends like the others.
        if (comm.rank() == 1) throw CommError("written");
      });
      if (comm.rank() == 0) {
        EXPECT_THAT(error, AllOf(HasSubstr("rank 2 on host b"), HasSubstr("centres-00002-of-0")));
        hosts.lose(1);
      }
    });
  }
  EXPECT_EQ(files(), before);
}

TEST_F(UnsharedOutput, NamesHostAndFileOfADamagedCheckpointOnAllWorkers) {
  save_on(TwoHosts(3, 2), 5);
  flip_a_byte(folder(5) / "centres-00002-of-00003.safetensors");
  const TwoHosts hosts(3, 2);
  testing::run_ranks(3, [&](Comm& comm) {
    const OutputLinks links = hosts.links(comm.rank());
    SmallWorker worker(comm.rank(), 3);
    worker.fill(77);
    const std::string error = message_of<InputError>([&] {
      load_checkpoint_of_rank_zero(folder(5), worker.state(), {comm, comm, links});
    });
    EXPECT_THAT(error, AllOf(HasSubstr("host a: "), HasSubstr("centres-00002-of-00003"),
                             HasSubstr("sha256 is ")));
    EXPECT_EQ(worker.differences(77), 0) << "the failed load changed the centres";
  });
}

/// A job whose host b had rank 0 for a while, so that b's folder has its newest checkpoint.
class OutputOfAnotherHost : public UnsharedOutput {
 protected:
  /// Saves this step of a job on host b only.
  void saves_on_b(std::int64_t step, const std::string& job_id = "job") const {
    const auto writer = make_checkpoint_writer(
        {.output = other_, .job_id = job_id, .membership = {.world_size = 1}, .global_batch = 256});
    SmallWorker worker(0, 1, {});
    worker.fill(static_cast<int>(step));
    writer->begin(worker.state(), testing::trained_with(step, 256), worker.job(),
                  CheckpointMode::kInPlace);
    writer->publish(step);
  }
  void saves_on_a(std::int64_t step) {
    Writers all = writers(1);
    save(all, step);
  }
  /// Returns host a's message about the fetched checkpoint.
  std::string fetches(const TwoHosts& hosts) const {
    std::string told;
    testing::run_ranks(hosts.workers(), [&](Comm& comm) {
      const OutputLinks links = hosts.links(comm.rank());
      const std::string mine = fetch_newest_checkpoint(
          comm, {.output = output_of(hosts, comm.rank()),
                 .job_id = "job",
                 .links = &links,
                 .membership = {.rank = comm.rank(), .world_size = hosts.workers()},
                 .global_batch = 256});
      if (comm.rank() == 0) told = mine;
    });
    return told;
  }
};

TEST_F(OutputOfAnotherHost, SendsItsNewerCheckpointToTheHostOfRankZero) {
  for (const int on_host_a : {1, 2}) {
    saves_on_a(3);
    saves_on_b(7);
    const TwoHosts hosts(3, on_host_a);
    EXPECT_THAT(fetches(hosts), HasSubstr("copied the checkpoint of step 7 from host b to "));
    EXPECT_EQ(newest_checkpoint(output_)->trained.step, 7);
    expect_loads_on(hosts, 7);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(other_)) {
      if (!entry.is_regular_file()) continue;
      EXPECT_EQ(testing::read_file(output_ / std::filesystem::relative(entry.path(), other_)),
                testing::read_file(entry.path()));
    }
    empty_output();
  }
}

TEST_F(OutputOfAnotherHost, SendsNothingOlderOrOfOtherJobs) {
  saves_on_a(7);
  saves_on_b(6);
  EXPECT_THAT(fetches(TwoHosts(2, 1)), IsEmpty());
  saves_on_b(9, "another");
  EXPECT_THAT(fetches(TwoHosts(2, 1)), IsEmpty());
  EXPECT_THAT(entries(), ::testing::ElementsAre("step-000000007"));
}

TEST_F(OutputOfAnotherHost, DoesNotSendADamagedCheckpoint) {
  saves_on_b(7);
  flip_a_byte(other_ / "step-000000007/centres-00000-of-00001.safetensors");
  EXPECT_THAT(message_of<InputError>([&] {
                const TwoHosts hosts(2, 1);
                testing::run_ranks(2, [&](Comm& comm) {
                  const OutputLinks links = hosts.links(comm.rank());
                  fetch_newest_checkpoint(comm,
                                          {.output = output_of(hosts, comm.rank()),
                                           .job_id = "job",
                                           .links = &links,
                                           .membership = {.rank = comm.rank(), .world_size = 2},
                                           .global_batch = 256});
                });
              }),
              AllOf(HasSubstr("step-000000007/centres-00000-of-00001.safetensors: sha256 is "),
                    HasSubstr("expected ")));
  EXPECT_FALSE(std::filesystem::exists(output_ / "step-000000007"));
}

}  // namespace
}  // namespace pfc
