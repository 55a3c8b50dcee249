// Removes events from the end of metrics.jsonl that a resumed run will repeat.
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Drops the events with more `images_seen` than `images`, in place: cuts the file before the first
/// of them. Reads the file backwards, up to an event that stays and before which all events stay,
/// so the rest of a long file is neither read nor written. Checkpoint events may be written late:
/// those of the remaining images stay, wherever they are. Lines after the cut that are not events
/// are dropped with a warning, and an unfinished last line is dropped silently. If the program is
/// killed meanwhile, the file is shorter and may end in the middle of a line. Does nothing if there
/// is no file. Throws StorageError.
void drop_events_after(const std::filesystem::path& metrics, std::int64_t images);

}  // namespace pfc
