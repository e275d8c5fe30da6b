#pragma once

#include "checkpoint/container.hpp"
#include "checkpoint/store.hpp"
#include "dist/grad_sync.hpp"
#include "spec/experiment/enums.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// By what checkpoints are compared: those of another monitor, or without a value, are no part of
/// it.
struct Ranking {
  std::string monitor;
  spec::Mode mode = spec::Mode::min;
};

/// The names of the best `most` (-1: of all that have a value), the best first; of equal values the
/// older one counts as better.
std::vector<std::string> best_names(const std::vector<checkpoint::Found>& found,
                                    const Ranking& ranking, std::int64_t most);

// What the thread does that writes a checkpoint: no tensors, no collectives, no events.

/// One checkpoint, as one rank has it.
struct WriteJob {
  std::vector<container::Entry> entries;  // their bytes stay as they are until it is done
  Json meta;
  checkpoint::Manifest manifest;  // rank 0 publishes it, with the parts
  std::function<bool()> is_heard =
      {};  // whether the history up to here is safe; absent: nobody asks
};

/// How it ended.
struct WriteOutcome {
  bool committed = false;  // of rank 0; of another one: its part is written
  std::string failure;     // what went wrong, also behind the commit; empty: nothing
  std::string name;        // of the folder
};

/// Writes the part of this rank; rank 0 makes the folder before, and commits it when all parts are
/// there, then moves the links and removes old ones. Ranks find each other by the files.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path folder;  // checkpoints/
    dist::Place place;
    Ranking ranking;
    std::int64_t top_k = 1;        // -1: nothing is removed
    double part_deadline_s = 120;  // for the parts of the other ranks
    double heard_deadline_s = 5;   // for the listeners
  };
  explicit CheckpointWriter(Options options);

  [[nodiscard]] const std::string& monitor() const { return options_.ranking.monitor; }
  /// Never throws.
  WriteOutcome run(const WriteJob& job, const std::atomic<bool>& cancelled);

 private:
  void lead(const WriteJob& job, const std::atomic<bool>& cancelled, WriteOutcome& outcome);
  void publish(const WriteJob& job, const std::filesystem::path& checkpoint,
               const std::atomic<bool>& cancelled);
  void follow(const WriteJob& job, const std::atomic<bool>& cancelled, WriteOutcome& outcome);
  void await_listeners(const WriteJob& job, const std::atomic<bool>& cancelled) const;
  void tidy(const std::filesystem::path& checkpoint);
  void await(const std::filesystem::path& path, const std::filesystem::path& sign_of_failure,
             const std::atomic<bool>& cancelled) const;

  Options options_;
  checkpoint::Store store_;
};

}  // namespace trainctl::train
