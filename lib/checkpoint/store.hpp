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

/// The names beside the checkpoints that lead to one of them.
enum class Link { last, best };
std::string name_of(Link link);

/// A folder with the name of a checkpoint.
struct Found {
  fs::path path;
  std::string name;
  Moment moment;
  bool committed = false;            // a manifest is there; else a save that was not finished
  std::optional<Manifest> manifest;  // nothing where it cannot be used
  std::string why;                   // it cannot
  bool unsupported = false;          // another version of the program wrote it
};

/// The folder `checkpoints/` of a run: "epoch=0003-step=000938" with rank_N.part of each rank and
/// the manifest; the links `last` and `best`. One process writes it, with one thread at a time, and
/// only the parts come from others: begin, parts, commit, point, prune. Whatever of these fails, or
/// kills the process, the checkpoints that were committed before stay as they are.
class Store {
 public:
  using Told = std::function<void(const fs::path& moved, const std::string& why)>;

  explicit Store(fs::path folder);

  /// Makes the folder of a new checkpoint, empty and known to the disk; what earlier saves left
  /// unfinished is removed, and a damaged checkpoint of that name is moved aside. Throws
  /// Error(resource), and Error(checkpoint) where a whole one of that name is there.
  fs::path begin(const Moment& moment);
  /// The file of a rank.
  static fs::path part(const fs::path& checkpoint, int rank);
  /// Writes the manifest, then reads everything back from the disk. Where that fails the manifest
  /// is taken away again, and Error(checkpoint) or Error(resource) thrown.
  void commit(const fs::path& checkpoint, const Manifest& manifest);
  /// Removes a checkpoint that was begun and cannot be committed, to give its space back at once;
  /// one that is committed stays. Throws Error(resource).
  void abandon(const fs::path& checkpoint);

  /// Makes a link lead to a committed checkpoint: a reader finds the one before or this one. Throws
  /// Error(resource), and Error(checkpoint) where it is none.
  void point(Link link, const fs::path& checkpoint);
  /// The committed checkpoint to which it leads; nothing where there is none.
  [[nodiscard]] std::optional<fs::path> pointed(Link link) const;

  /// Newest first, by step, then epoch. Reads manifests, not parts. Throws Error(resource) where
  /// the folder cannot be read.
  [[nodiscard]] std::vector<Found> list() const;
  /// Manifest and every part. Throws Error(checkpoint) naming the file and the tensor,
  /// Error(resource) where it may not be read.
  static void verify(const fs::path& checkpoint);
  /// The newest that verifies. Each newer one is damaged: moved aside to "corrupt-<name>[-n]" and
  /// reported. Nothing where there are none at all. Throws Error(checkpoint) where there are some,
  /// or were before they were moved aside, and none verifies; UnsupportedFormat where one of
  /// another format is newer.
  std::optional<fs::path> newest_valid(const Told& told);

  /// Removes what earlier saves left unfinished: where no process saves. Throws Error(resource)
  /// where the folder cannot be read; what cannot be removed stays.
  void remove_unfinished() const;
  /// Removes what earlier saves left unfinished and every checkpoint that `keep` does not name,
  /// oldest first; never where a link leads, and never one of the last two that verify: what this
  /// Store has committed or verified is not read again. Those that are found damaged on the way are
  /// moved aside, not removed; those of another format stay and do not count. Throws, once the rest
  /// is done,
  /// Error(resource), or Error(checkpoint) naming what was damaged and where it went.
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
  fs::path begun_;                              // and not committed yet
  std::map<std::string, std::uint32_t> seals_;  // of those that this one has verified, by name
};

}  // namespace trainctl::checkpoint
