// Jobs of killed coordinators whose workers still write where those of this one will.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/journal/takeover.h"

namespace pfc {

/// Ends, in good order, each job of these journals whose coordinator's own agent still runs, and
/// that has the same output folder: its workers write a checkpoint together, and it is waited for,
/// less than a minute. Its journal goes then. Jobs with another output folder are left alone.
/// `tell` gets a line about each that is ended, before it is waited for.
void end_rivals(std::vector<FoundJournal> journals, const std::filesystem::path& output,
                const std::function<void(const std::string& line)>& tell);

}  // namespace pfc
