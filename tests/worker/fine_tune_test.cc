// Fine-tuning: parts of the backbone frozen. Workers are threads.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/config/parameters/name_patterns.h"
#include "common/files/safetensors.h"
#include "model/networks/arena.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

constexpr std::int64_t kIdentities = 9, kImagesOfEach = 5, kSize = 16;

class FineTune : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_insightface(
        {.folder = data_.path(), .identities = kIdentities, .images_per_identity = kImagesOfEach});
  }

  [[nodiscard]] JobConfig job() const {
    JobConfig job;
    job.network = "mbf";
    job.embedding_size = kSize;
    job.batch_size = 4;
    job.max_steps = 2;
    job.num_workers = 1;
    job.rec = {data_.path()};
    job.output = output_.path();
    job.device = DeviceChoice::kCpu;
    return job;
  }

  const TemporaryFolder data_, output_;
};

/// The tensors of a session, in PyTorch's names, and the moments.
struct NamedValues {
  std::vector<HostTensor> tensors, momentum;
};

NamedValues values_of(TrainingSession& s) {
  return {export_state_dict(*s.ops, *s.backbone),
          export_flat(*s.ops, s.backbone->weights, s.optimizer->momentum(), "")};
}

void expect_kept(const NamedValues& before, const NamedValues& after, const char* pattern) {
  int kept = 0, changed = 0;
  for (std::size_t i = 0; i < before.tensors.size(); ++i) {
    const HostTensor& tensor = before.tensors[i];
    if (tensor.name.ends_with("num_batches_tracked")) continue;  // one counter for all
    const bool frozen = matches_pattern(tensor.name, pattern);
    EXPECT_EQ(tensor.bytes == after.tensors[i].bytes, frozen) << tensor.name;
    ++(frozen ? kept : changed);
  }
  for (std::size_t i = 0; i < before.momentum.size(); ++i) {
    const HostTensor& tensor = before.momentum[i];
    const bool zero =
        std::ranges::all_of(after.momentum[i].bytes, [](std::byte b) { return b == std::byte{0}; });
    EXPECT_EQ(zero, matches_pattern(tensor.name, pattern)) << tensor.name;
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(changed, 5);
}

TEST_F(FineTune, FrozenTensorsStayBitForBitAlsoAfterAResumeWithOtherWorkers) {
  JobConfig job_ = job();
  job_.freeze = {"layers.*"};
  job_.gradient_acc = 2;
  job_.sync_bn = true;
  NamedValues before;
  testing::with_sessions(job_, 2, [&](int rank, TrainingSession& session) {
    const NamedValues first = values_of(session);
    train(session, nullptr);
    expect_kept(first, values_of(session), "layers.*");
    if (rank == 0) before = first;
  });
  job_.resume = true;
  job_.max_steps = 4;
  testing::with_sessions(job_, 3, [&](int, TrainingSession& session) {
    EXPECT_EQ(session.plan.first_step(), 3);
    train(session, nullptr);
    expect_kept(before, values_of(session), "layers.*");
  });
}

TEST_F(FineTune, WithAFrozenBackboneOnlyCentresChange) {
  JobConfig job_ = job();
  job_.freeze = {"*"};
  std::vector<HostTensor> before;
  testing::with_sessions(job_, 2, [&](int rank, TrainingSession& session) {
    if (rank == 0) before = export_state_dict(*session.ops, *session.backbone);
    const auto centres = testing::on_host(*session.ops, session.head->state().centres);
    train(session, nullptr);
    EXPECT_NE(testing::on_host(*session.ops, session.head->state().centres), centres);
  });
  const SafetensorsFile model(output_ / "backbone.safetensors");
  for (const HostTensor& tensor : before) {
    EXPECT_TRUE(std::ranges::equal(model.at(tensor.name).bytes, tensor.bytes)) << tensor.name;
  }
}

}  // namespace
}  // namespace pfc
