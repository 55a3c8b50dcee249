// The end of metrics.jsonl, which a resumed run repeats.
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Drops the events of images that will be seen again, those with more `images_seen` than this, in
/// place: the file is cut before the first of them. Reads it from its end, no further back than to
/// an event that stays and after which no earlier one can be dropped; so what lies before it, which
/// may be long, is neither read nor written. Those of a checkpoint are told late, and stay where
/// they are of such images. Lines after that event that are none are dropped with a warning, and a
/// last one that was not finished without one. Where the program is killed meanwhile, the file ends
/// sooner, perhaps in the middle of a line. Nothing where there is no file. Throws StorageError.
void drop_events_after(const std::filesystem::path& metrics, std::int64_t images);

}  // namespace pfc
