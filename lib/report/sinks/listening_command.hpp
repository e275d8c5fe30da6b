#pragma once

#include "base/files.hpp"

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::report {

/// A command that reads lines, in a process group of its own. Nothing here blocks but `wait`.
class ListeningCommand {
 public:
  /// Its stdout and stderr are appended to `log`. Throws Error(config) where it cannot be started,
  /// Error(resource) where the log cannot be written.
  ListeningCommand(const std::vector<std::string>& command, const std::filesystem::path& log);
  /// Kills what still runs.
  ~ListeningCommand();
  ListeningCommand(const ListeningCommand&) = delete;
  ListeningCommand& operator=(const ListeningCommand&) = delete;

  enum class Taken { all, some, broken };
  /// As much of `bytes` as fits into the pipe now; what was taken is removed from it.
  Taken take(std::string& bytes);
  /// Its input ends.
  void close_input() { input_.reset(); }
  /// How it ended, "exit code 3" or "SIGKILL"; nothing while it runs.
  std::optional<std::string> ending();
  /// Whether it has ended by itself with exit code 0.
  [[nodiscard]] bool ended_well() const { return ended_well_; }
  void signal_group(int signal) const;

 private:
  Fd input_;
  pid_t pid_ = -1;
  std::optional<std::string> ending_;
  bool ended_well_ = false;
};

}  // namespace trainctl::report
