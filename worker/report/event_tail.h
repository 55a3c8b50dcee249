// Removes events from the end of metrics.jsonl that a resumed run will repeat.
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Drops the events with more `images_seen` than `images`, in place: cuts the file before the
/// first of them. Reads the file backwards until an event that stays and that no droppable event
/// can precede, so the rest of a long file is neither read nor written. Checkpoint events are
/// written late, and stay if their images stay. Drops later lines that are not events with a
/// warning, and an unfinished last line silently. If the program is killed meanwhile, the file is
/// shorter and may end in the middle of a line. Does nothing if there is no file. Throws
/// StorageError.
void drop_events_after(const std::filesystem::path& metrics, std::int64_t images);

}  // namespace pfc
