#pragma once

#include <sys/types.h>

#include <filesystem>
#include <span>
#include <vector>

// Where the threads of a job are that hangs: asked for by the supervisor, one after the other.

namespace trainctl::launch {

/// A living process to be asked.
struct StackSource {
  int rank = 0;
  pid_t pid = 0;
  int fd = -1;  // the reading end of the pipe that its threads answer through; never waits
};

/// logs/rank_N.stacks.txt.
std::filesystem::path stacks_path(const std::filesystem::path& log_folder, int rank);
/// Removes the one of an earlier run in the same folder.
void remove_stacks(const std::filesystem::path& log_folder, int rank);

/// Writes for each process the name, state, kernel function and system call of its threads, and
/// their frames where they answer within 0.2 s; a stopped process is continued first. All together
/// it takes about 2 s at most, in the order given: threads whose turn does not come, those that
/// block the signal, and those of a process that has no handler for it, have their states only. At
/// most 512 threads and 1 MiB a file. Returns the ranks whose file was written; a failure is
/// logged.
std::vector<int> write_stacks(const std::filesystem::path& log_folder,
                              std::span<const StackSource> sources);

}  // namespace trainctl::launch
