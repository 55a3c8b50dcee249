#include "coordinator/history/start_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kBegin = "Training: 2026-05-12 00:00:42,110-";

TEST(StartNotes, AreTheLinesBeforeTheFirstStep) {
  StartNotes notes;
  notes.add("something else");
  notes.add(std::string(kBegin) + "memory of a worker: 1 GiB planned of 2 GiB");
  notes.add(std::string(kBegin) + "Speed 884.42 samples/sec   Loss 47.2532");
  notes.add(std::string(kBegin) + "evaluated");
  EXPECT_THAT(notes.notes(), ElementsAre("memory of a worker: 1 GiB planned of 2 GiB"));
}

TEST(StartNotes, AreLimitedInNumberAndLength) {
  StartNotes notes;
  for (int i = 0; i < 100; ++i) notes.add(kBegin + std::string(10'000, 'x') + "\n<b>");
  EXPECT_THAT(notes.notes(), SizeIs(StartNotes::kMost));
  EXPECT_LE(notes.notes().front().size(), StartNotes::kLongest);
}

TEST(StartNotes, IgnoreTruncatedLines) {
  StartNotes notes;
  notes.add("Training: ");
  notes.add("Training: 2026");
  notes.add("");
  EXPECT_THAT(notes.notes(), IsEmpty());
}

}  // namespace
}  // namespace pfc
