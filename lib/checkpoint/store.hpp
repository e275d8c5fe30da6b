#pragma once

#include "base/files.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::checkpoint {

/// The symbolic links next to the checkpoints.
enum class Link { last, best };
std::string name_of(Link link);

/// A folder with the name of a checkpoint.
struct StoredCheckpoint {
  fs::path path;
  std::string name;
  Moment moment;
  bool committed = false;            // has a manifest; otherwise the save was not finished
  std::optional<Manifest> manifest;  // absent when it cannot be used
  std::string why;                   // why the manifest cannot be used
  bool unsupported = false;          // another version of the program wrote it
};

/// The folder `checkpoints/` of a run: "epoch=0003-step=000938" with rank_N.part of each rank and
/// the manifest, and the links `last` and `best`. One thread of one process writes it in the order
/// begin, parts, commit, point, prune; other processes write only their parts. A failure or a kill
/// at any point leaves the committed checkpoints intact.
class Store {
 public:
  using OnQuarantine = std::function<void(const fs::path& moved, const std::string& why)>;

  explicit Store(fs::path folder);

  /// Creates an empty folder for a new checkpoint and syncs it to disk. Removes unfinished saves,
  /// and renames a damaged checkpoint of the same name. Throws Error(resource), or
  /// Error(checkpoint) when an intact checkpoint of that name exists.
  fs::path begin(const Moment& moment);
  /// Returns the path of a rank's part.
  static fs::path part(const fs::path& checkpoint, int rank);
  /// Writes the manifest, then reads all files back from disk. On failure removes the manifest and
  /// throws Error(checkpoint) or Error(resource).
  void commit(const fs::path& checkpoint, const Manifest& manifest);
  /// Removes a checkpoint that was begun and cannot be committed, to free its space immediately.
  /// Keeps a committed checkpoint. Throws Error(resource).
  void abandon(const fs::path& checkpoint);

  /// Atomically changes a link to a committed checkpoint. Throws Error(resource), or
  /// Error(checkpoint) when the checkpoint is not committed.
  void point(Link link, const fs::path& checkpoint);
  /// Returns the committed checkpoint that the link points to, or nothing.
  [[nodiscard]] std::optional<fs::path> pointed(Link link) const;

  /// Lists checkpoints, newest first, by step, then epoch. Reads manifests, not parts. Throws
  /// Error(resource) when the folder cannot be read.
  [[nodiscard]] std::vector<StoredCheckpoint> list() const;
  /// Verifies the manifest and every part. Throws Error(checkpoint) with the file and the tensor,
  /// Error(resource) when reading fails.
  static void verify(const fs::path& checkpoint);
  /// Returns the newest checkpoint that verifies, or nothing when there are none. Renames newer,
  /// damaged checkpoints to "corrupt-<name>[-n]" and reports them. Throws Error(checkpoint) when
  /// there are checkpoints, possibly renamed earlier, but none verifies; UnsupportedFormat when a
  /// newer one has another format.
  std::optional<fs::path> newest_valid(const OnQuarantine& on_quarantine);

  /// Removes unfinished saves. Must not run during a save. Throws Error(resource) when the folder
  /// cannot be read; ignores checkpoints that cannot be removed.
  void remove_unfinished() const;
  /// Removes unfinished saves and, oldest first, every checkpoint that is not in `keep`. Never
  /// removes the target of a link or the last two checkpoints that verify; checkpoints that this
  /// Store has committed or verified are not read again. Renames damaged checkpoints that it finds.
  /// Checkpoints of another format stay and do not count. Finally throws Error(resource), or
  /// Error(checkpoint) with the damaged checkpoints and their new names.
  void prune(std::span<const std::string> keep);

 private:
  struct Damaged {
    fs::path path;
    std::string why;
  };
  struct Surplus {
    std::vector<fs::path> old;  // to remove, oldest first
    std::vector<Damaged> damaged;
  };

  void remove_temporary_links() const;
  void clear_place(const fs::path& checkpoint);
  [[nodiscard]] std::vector<fs::path> unfinished() const;
  [[nodiscard]] Surplus surplus(std::span<const std::string> keep);
  [[nodiscard]] std::optional<std::string> damage_of(const fs::path& checkpoint);
  [[nodiscard]] bool holds_damaged_ones() const;

  fs::path folder_;
  fs::path begun_;                              // begun and not committed yet
  std::map<std::string, std::uint32_t> seals_;  // seals of verified checkpoints, by name
};

}  // namespace trainctl::checkpoint
