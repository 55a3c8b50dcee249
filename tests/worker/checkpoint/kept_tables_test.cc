// Tests checkpoints whose tables of class centres are in files that stay in use. Real heads train,
// and are compared with heads whose tables are in memory: every bit must be the same.
#include "worker/checkpoint/kept_tables.h"

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/head/row_copy.h"
#include "worker/start/centre_file.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kKeptClasses = 3000, kKeptSize = 64;

/// What a run of a job is.
struct KeptRun {
  int workers = 2;
  bool disk = true;
  std::int64_t last = 4;  ///< step at which the run ends, with a checkpoint
  CentrePrecision precision = CentrePrecision::kInt8;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  std::int64_t more = 0;  ///< steps that are trained after the last checkpoint, and lost
  std::int64_t keep = 3;
};

/// The rows of all workers, with scales, and the numbers of updates that they have seen.
using AllBytes = std::vector<std::byte>;

class KeptTables : public Checkpoint {
 protected:
  HeadOptions options(const KeptRun& run) const {
    return {.classes = kKeptClasses,
            .embedding_size = kKeptSize,
            .scale = 16,
            .sample_rate = 0.005,
            .seed = 3,
            .optimizer = run.optimizer,
            .weight_decay = 1e-3,
            .centre_precision = run.precision,
            .centre_file =
                run.disk ? CentreFile{.folder = output_, .cache = std::size_t{64} * kPageBytes}
                         : CentreFile{}};
  }

  /// Resumes from the newest checkpoint, if there is one, and trains. Writes a checkpoint after
  /// each step.
  AllBytes run(const KeptRun& run) {
    ++generation_;
    std::vector<AllBytes> parts(static_cast<std::size_t>(run.workers));
    testing::run_ranks(run.workers, [&](Comm& comm) {
      parts[static_cast<std::size_t>(comm.rank())] = train(comm, run);
    });
    AllBytes all;
    for (const AllBytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  AllBytes train(Comm& comm, const KeptRun& run) const {
    const Membership me{.rank = comm.rank(), .world_size = comm.size(), .generation = generation_};
    JobConfig job;
    job.output = output_;
    job.resume = true;
    HeadOptions head_options = options(run);
    head_options.centre_file = choose_centre_file(comm, head_options,
                                                  {.job = job,
                                                   .job_id = "job",
                                                   .membership = me,
                                                   .one_host = one_host_,
                                                   .exclusive = exclusive_,
                                                   .expect_step = [&](std::int64_t step) {
                                                     if (step < expect_step_)
                                                       throw std::out_of_range("an older step");
                                                   }});
    SmallWorker small(comm.rank(), comm.size(), world(run));
    const auto head = make_head(*small.ops, comm, head_options);
    const TrainingState state{.ops = *small.ops,
                              .backbone = small.backbone,
                              .optimizer = small.optimizer,
                              .head = *head,
                              .loss_scale = small.loss_scale,
                              .classes = kKeptClasses,
                              .network = "small"};
    std::int64_t step = 0;
    if (const auto newest = newest_checkpoint(output_)) {
      step = load_checkpoint(newest->folder, state).trained.step;
    }
    comm.barrier();
    const auto writer = make_checkpoint_writer({.output = output_,
                                                .job_id = "job",
                                                .membership = me,
                                                .keep = run.keep,
                                                .global_batch = 256});
    while (step < run.last + run.more) {
      train_step(*head, ++step);
      if (step > run.last) continue;
      writer->begin(state, testing::trained_with(step, 256), small.job(), CheckpointMode::kInPlace);
      writer->wait();
      comm.barrier();
      if (comm.rank() == 0) writer->publish(step);
      comm.barrier();
    }
    return rows_of(*head);
  }

  static WorldOptions world(const KeptRun& run) {
    return {.classes = kKeptClasses, .dimension = kKeptSize, .optimizer = run.optimizer};
  }

  static void train_step(Head& head, std::int64_t step) {
    std::vector<float> x(3 * kKeptSize);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(((i + 1) * static_cast<std::size_t>(step) * 37) % 19) - 9;
    }
    const std::vector<std::int64_t> labels{step, kKeptClasses - step, 20 * step};
    ActiveCentres active = head.sample(labels, step);
    head.read_ahead(active);
    head.run({.all_embeddings = Tensor(x.data(), {3, kKeptSize}),
              .all_labels = labels,
              .active = active,
              .update = step});
  }

  static AllBytes rows_of(Head& head) {
    AllBytes bytes;
    const auto add = [&](std::span<const std::byte> some) {
      bytes.insert(bytes.end(), some.begin(), some.end());
    };
    const Head::State state = head.state();
    for (const ScaledRows& table : {state.centres, state.momentum, state.second}) {
      if (!table) continue;
      for (const RowRange& rows : pieces_of(head.shard(), kKeptSize)) {
        const auto pinned = head.pin(rows, PageUse::kRead);
        const Tensor part = row_range(table, rows.begin - head.shard().begin, rows.size());
        add({static_cast<const std::byte*>(part.data), part.bytes()});
      }
      if (table.scales) {
        add({static_cast<const std::byte*>(table.scales.data), table.scales.bytes()});
      }
    }
    add(std::as_bytes(state.updated));
    return bytes;
  }

  [[nodiscard]] std::filesystem::path tables(Generation generation) const {
    return output_ / ("class_centres.job.g" + std::to_string(generation));
  }

  Generation generation_ = 0;
  std::int64_t expect_step_ = 0;
  bool one_host_ = true;
  bool exclusive_ = true;
};

TEST_F(KeptTables, ContinuesInPlaceWithTheSameBits) {
  for (const CentrePrecision precision :
       {CentrePrecision::kInt8, CentrePrecision::kFp32, CentrePrecision::kBf16}) {
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
      if (optimizer == OptimizerKind::kAdamW && precision == CentrePrecision::kInt8) continue;
      const KeptRun memory{
          .disk = false, .last = 9, .precision = precision, .optimizer = optimizer};
      const AllBytes expected = run(memory);
      empty_output();
      KeptRun disk{.last = 3, .precision = precision, .optimizer = optimizer, .more = 2};
      run(disk);
      const Generation first = generation_;
      disk.last = 6;
      run(disk);
      disk.last = 9;
      disk.more = 0;
      EXPECT_EQ(run(disk), expected);
      EXPECT_TRUE(std::filesystem::exists(tables(first)));
      EXPECT_FALSE(std::filesystem::exists(tables(first + 1))) << "a second copy of the tables";
      empty_output();
    }
  }
}

TEST_F(KeptTables, MovesToOtherWorkersPrecisionsAndMemory) {
  const AllBytes expected = run({.disk = false, .last = 5});
  empty_output();
  run({.last = 5, .more = 3});
  EXPECT_EQ(run({.workers = 2, .disk = false, .last = 5}), expected);
  const AllBytes one = run({.workers = 1, .disk = false, .last = 5});
  EXPECT_EQ(run({.workers = 1, .last = 5}), one);
  run({.workers = 3, .last = 6, .more = 1});  // new files, the old checkpoints use the old ones
  EXPECT_TRUE(std::filesystem::exists(tables(2)));
  EXPECT_EQ(run({.workers = 1, .disk = false, .last = 6}),
            run({.workers = 1, .disk = true, .last = 6}));
  run({.workers = 3, .last = 9});
  EXPECT_FALSE(std::filesystem::exists(tables(2))) << "no checkpoint needs it";
}

TEST_F(KeptTables, ContinuesFromAnOlderCheckpoint) {
  const AllBytes expected = run({.disk = false, .last = 7});
  empty_output();
  run({.last = 5, .more = 2});
  std::filesystem::rename(folder(5), temporary_ / "moved-5");
  std::filesystem::rename(folder(4), temporary_ / "moved-4");
  EXPECT_EQ(run({.last = 7}), expected);
  for (const std::int64_t step : {6, 7}) std::filesystem::remove_all(folder(step));
  std::filesystem::rename(folder(5), temporary_ / "second-5");
  std::filesystem::rename(temporary_ / "moved-4", folder(4));
  EXPECT_THAT(testing::message_of<InputError>([&] { run({.last = 7}); }),
              HasSubstr("-of-00002.json: does not list checkpoint 000000004.job.g2: its log was "
                        "deleted, or the job has continued from an earlier checkpoint"));
}

TEST_F(KeptTables, RemovesLogsThatNoCheckpointNeeds) {
  run({.last = 6, .keep = 2});
  std::vector<std::int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(tables(1))) {
    const auto step = checkpoint_format::step_of_log(entry.path().filename().string());
    if (step) steps.push_back(*step);
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(5, 5, 6, 6));
}

TEST_F(KeptTables, NamesMissingFiles) {
  run({.last = 3, .more = 1});
  const auto log = tables(1) / "00001-of-00002.undo-000000003.job.g1";
  ASSERT_TRUE(std::filesystem::exists(log));
  std::filesystem::remove(log);
  const CheckpointModel model{
      .network = "small", .embedding_size = kKeptSize, .classes = kKeptClasses};
  const auto fits = [&] { check_checkpoint_fits(folder(3), model); };
  EXPECT_THAT(testing::message_of<InputError>(fits),
              HasSubstr(log.string() + ": missing; the checkpoint cannot be used: move"));
  std::filesystem::rename(tables(1), temporary_ / "elsewhere");
  EXPECT_THAT(testing::message_of<InputError>(fits), HasSubstr("00000-of-00002.json: missing"));
}

TEST_F(KeptTables, GivesUpNoCheckpointWhoseFolderIsThere) {
  run({.last = 4});
  testing::write_file(folder(4) / "manifest.json", "{");
  const auto resume = [&] { run({.last = 5}); };
  EXPECT_THAT(testing::message_of<InputError>(resume),
              HasSubstr(folder(4).string() + " is newer than " + folder(3).string() +
                        ", from which the job would continue, but cannot be used; repair it, or "
                        "move it away to give it up"));
  EXPECT_TRUE(std::filesystem::exists(tables(1) / "00000-of-00002.undo-000000004.job.g1"));
  expect_step_ = 4;
  EXPECT_THROW(resume(), std::out_of_range);
  expect_step_ = 0;
  std::filesystem::remove_all(folder(4));
  EXPECT_EQ(run({.last = 5}), run({.disk = false, .last = 5}));
}

TEST_F(KeptTables, NeedsALockAndOneHost) {
  for (const bool one_host : {true, false}) {
    one_host_ = one_host;
    exclusive_ = !one_host;
    run({.last = 2});
    EXPECT_FALSE(std::filesystem::exists(tables(generation_)));
    EXPECT_GT(std::filesystem::file_size(folder(2) / "centres-00000-of-00002.safetensors"),
              kKeptClasses / 2 * kKeptSize);
  }
}

TEST_F(KeptTables, NamesTheCheckpointBeforeOneThatCannotBeTakenOver) {
  run({.last = 3, .more = 1});
  std::filesystem::remove(tables(1) / "00000-of-00002.undo-000000003.job.g1");
  EXPECT_THAT(testing::message_of<InputError>([&] { run({.workers = 2, .last = 4}); }),
              HasSubstr("undo-000000003.job.g1: missing; the checkpoint cannot be used: move " +
                        folder(3).string() + " away to resume from " + folder(2).string()));
}

TEST_F(KeptTables, RejectsOtherTables) {
  const auto file = [&](const std::string& tables) {
    const std::vector<float> bias(2);
    const std::vector<SafetensorsEntry> entries{
        {"momentum", "F32", {2}, std::as_bytes(std::span(bias))}};
    write_safetensors(temporary_ / "file", entries, {{"tables", tables}});
    SafetensorsFile opened(temporary_ / "file");
    add_tables(opened);
    return opened.tensors().size();
  };
  const std::string weight = R"({"name": "weight", "dtype": "F32", "shape": [1, 2], "offset": 0})";
  EXPECT_EQ(file("[" + weight + "]"), 2U);
  EXPECT_THROW(file("[" + weight + "," + weight + "]"), InputError);
  for (const char* name : {"momentum", "updated", "weight_scale"}) {
    std::string other = weight;
    other.replace(other.find("weight"), 6, name);
    EXPECT_THROW(file("[" + other + "]"), InputError) << name;
  }
}

TEST_F(KeptTables, IgnoresManifestsOfOtherPrograms) {
  run({.last = 1});
  std::filesystem::create_directory(output_ / "other");
  testing::write_file(output_ / "other/manifest.json", R"({"format": "other", "version": 1})");
  std::filesystem::remove_all(folder(1));
  run({.last = 1});
  EXPECT_FALSE(std::filesystem::exists(tables(1)));
}

TEST_F(KeptTables, KeepsTablesIfAManifestCannotBeRead) {
  run({.last = 2});
  std::filesystem::create_directory(output_ / "aside");
  testing::write_file(output_ / "aside/manifest.json", "{");
  std::filesystem::remove_all(folder(1));
  std::filesystem::remove_all(folder(2));
  run({.last = 1});
  EXPECT_TRUE(std::filesystem::exists(tables(1)));
  std::filesystem::remove_all(output_ / "aside");
  run({.last = 2});
  EXPECT_FALSE(std::filesystem::exists(tables(1)));
}

}  // namespace
}  // namespace pfc
