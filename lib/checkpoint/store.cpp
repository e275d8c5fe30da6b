#include "checkpoint/store.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/verify.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace trainctl::checkpoint {
namespace {

constexpr std::size_t kLeast = 2;  // verified checkpoints to keep

/// Returns the name prefix of a link before it is renamed.
std::string temporary_prefix(Link link) { return fmt::format(".{}.tmp.", name_of(link)); }

void remove_or_throw(const fs::path& checkpoint) {
  if (const auto failed = remove_folder(checkpoint)) throw Error(ErrorKind::resource, *failed);
}

StoredCheckpoint inspect(const fs::path& checkpoint, const Moment& moment) {
  StoredCheckpoint found{
      checkpoint, checkpoint.filename().string(), moment, is_committed(checkpoint), {}, {}, false};
  try {
    if (found.committed) found.manifest = read_manifest(checkpoint);
    if (!found.committed) found.why = "the save was not finished";
  } catch (const UnsupportedFormat& error) {
    found.unsupported = true;
    found.why = error.what();
  } catch (const Error& error) {
    found.why = error.what();
  }
  return found;
}

}  // namespace

std::string name_of(Link link) { return link == Link::last ? "last" : "best"; }

Store::Store(fs::path folder) : folder_(std::move(folder)) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // for "checkpoints/"
}

fs::path Store::begin(const Moment& moment) {
  ASSERT(moment.epoch >= 0 && moment.global_step >= 0);
  const fs::path checkpoint = folder_ / folder_name(moment);
  if (!is_folder(folder_)) {
    make_folder(folder_);
    sync_folder(folder_.has_parent_path() ? folder_.parent_path() : fs::path("."));
  }
  begun_.clear();
  // If an unfinished save cannot be removed, this save may still fit into the remaining space.
  remove_unfinished();
  if (is_folder(checkpoint)) clear_place(checkpoint);
  make_folder(checkpoint);
  sync_folder(folder_);
  begun_ = checkpoint;
  return checkpoint;
}

void Store::clear_place(const fs::path& checkpoint) {
  if (!is_committed(checkpoint)) {
    remove_or_throw(checkpoint);
    return;
  }
  ENSURE(checkpoint, damage(checkpoint).has_value(),
         "cannot save {}: a valid checkpoint exists there", printable(checkpoint.string()));
  quarantine(checkpoint);
}

fs::path Store::part(const fs::path& checkpoint, int rank) { return checkpoint / part_name(rank); }

void Store::commit(const fs::path& checkpoint, const Manifest& manifest) {
  ASSERT(checkpoint.filename() == folder_name(manifest.moment()));
  begun_.clear();  // from here on it is a checkpoint or gets removed
  check(manifest);
  FileGuard committed(checkpoint / kManifestName);
  container::write(committed.path(), {}, to_json(manifest));
  drop_from_cache(checkpoint, manifest);
  in_context("cannot verify the saved checkpoint", [&] {
    verify(checkpoint);
    seals_[checkpoint.filename().string()] = seal_of(checkpoint);
  });
  committed.keep();
}

void Store::abandon(const fs::path& checkpoint) {
  begun_.clear();
  if (is_committed(checkpoint)) return;
  remove_or_throw(checkpoint);
}

void Store::point(Link link, const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  ENSURE(checkpoint, parse_folder_name(name) && is_committed(folder_ / name),
         "{} is not a checkpoint in {}", printable(checkpoint.string()),
         printable(folder_.string()));
  const fs::path target = folder_ / name_of(link);
  const fs::path temporary = folder_ / fmt::format("{}{}", temporary_prefix(link), ::getpid());
  ::unlink(temporary.c_str());
  int cause = ::symlink(name.c_str(), temporary.c_str()) == 0 ? 0 : errno;
  if (cause == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) {
    cause = errno;
    ::unlink(temporary.c_str());
  }
  ENSURE(resource, cause == 0, "cannot link {} to {}: {}", printable(target.string()), name,
         std::strerror(cause));
  sync_folder(folder_);
}

std::optional<fs::path> Store::pointed(Link link) const {
  std::error_code failure;
  const fs::path target = fs::read_symlink(folder_ / name_of(link), failure);
  const fs::path checkpoint = folder_ / target;
  // Accepts only checkpoints of this folder, because the link may come from an untrusted archive.
  if (failure || !parse_folder_name(target.string()) || !is_folder(checkpoint) ||
      !is_committed(checkpoint))
    return std::nullopt;
  return checkpoint;
}

std::vector<StoredCheckpoint> Store::list() const {
  std::vector<StoredCheckpoint> found;
  for (const std::string& name : file_names(folder_)) {
    const auto moment = parse_folder_name(name);
    if (moment && is_folder(folder_ / name)) found.push_back(inspect(folder_ / name, *moment));
  }
  std::ranges::sort(found, std::ranges::greater(), &StoredCheckpoint::moment);
  return found;
}

void Store::verify(const fs::path& checkpoint) { checkpoint::verify(checkpoint); }

bool Store::holds_damaged_ones() const {
  return std::ranges::any_of(file_names(folder_), [](const std::string& name) {
    return name.starts_with(kQuarantinePrefix);
  });
}

std::optional<fs::path> Store::newest_valid(const OnQuarantine& on_quarantine) {
  std::string newest;  // why the newest one does not verify
  for (const StoredCheckpoint& found : list()) {
    if (!found.committed) continue;
    const std::optional<std::string> why = damage(found.path);
    if (!why) return found.path;
    if (newest.empty()) newest = *why;
    quarantine_and_report(found.path, *why, on_quarantine);
  }
  ENSURE(checkpoint, newest.empty(), "no checkpoint in {} is valid; the newest is damaged: {}",
         printable(folder_.string()), newest);
  ENSURE(
      checkpoint, !holds_damaged_ones(),
      "{} contains no valid checkpoint, only damaged ones ({}*)\nhint: remove the {}* folders to "
      "start from the beginning",
      printable(folder_.string()), kQuarantinePrefix, kQuarantinePrefix);
  return std::nullopt;
}

std::vector<fs::path> Store::unfinished() const {
  std::vector<fs::path> paths;
  for (const std::string& name : file_names(folder_)) {
    const fs::path path = folder_ / name;
    if (parse_folder_name(name) && is_folder(path) && !is_committed(path) && path != begun_)
      paths.push_back(path);
  }
  return paths;
}

/// Checkpoints that this process has verified are not read again.
std::optional<std::string> Store::damage_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  const auto seal = seals_.find(name);
  if (seal != seals_.end() && is_as_sealed(checkpoint, seal->second)) return std::nullopt;
  std::optional<std::string> why = damage(checkpoint);
  if (!why) seals_[name] = seal_of(checkpoint);
  return why;
}

/// Considers committed checkpoints only.
Store::Surplus Store::surplus(std::span<const std::string> keep) {
  std::vector<fs::path> kept;
  std::vector<fs::path> others;
  const auto last = pointed(Link::last);
  const auto best = pointed(Link::best);
  for (const StoredCheckpoint& found : list()) {
    if (!found.committed || found.unsupported) continue;
    const bool named = std::ranges::find(keep, found.name) != keep.end();
    const bool linked = found.path == last || found.path == best;
    (named || linked ? kept : others).push_back(found.path);
  }
  Surplus surplus;
  if (others.empty()) return surplus;
  std::size_t whole = 0;
  for (const fs::path& path : kept) {
    if (whole < kLeast && !damage_of(path)) ++whole;
  }
  // If fewer than kLeast of the kept ones verify, the newest of the others are kept, too.
  for (const fs::path& path : others) {
    const std::optional<std::string> why = whole < kLeast ? damage_of(path) : std::nullopt;
    if (why) {
      surplus.damaged.push_back({path, *why});
    } else if (whole < kLeast) {
      ++whole;
    } else {
      surplus.old.push_back(path);
    }
  }
  std::ranges::reverse(surplus.old);
  return surplus;
}

void Store::remove_temporary_links() const {
  for (const std::string& name : file_names(folder_)) {
    const bool left_over = name.starts_with(temporary_prefix(Link::last)) ||
                           name.starts_with(temporary_prefix(Link::best));
    if (left_over) ::unlink((folder_ / name).c_str());
  }
}

void Store::remove_unfinished() const {
  remove_temporary_links();
  for (const fs::path& left : unfinished()) (void)remove_folder(left);
}

void Store::prune(std::span<const std::string> keep) {
  std::optional<std::string> failed;
  const auto remove = [&](const fs::path& path) {
    const auto why = remove_folder(path);
    if (why && !failed) failed = why;
  };
  remove_temporary_links();
  std::ranges::for_each(unfinished(), remove);
  const Surplus surplus = this->surplus(keep);
  std::ranges::for_each(surplus.old, remove);
  std::string quarantined;
  for (const auto& [path, damage] : surplus.damaged) {
    quarantine_and_report(path, damage, [&](const fs::path& moved, const std::string& why) {
      const std::string name = path.filename().string();
      const std::string renamed = moved.filename().string();
      quarantined += fmt::format("{}{} is damaged{}: {}", quarantined.empty() ? "" : "; ", name,
                                 renamed == name ? "" : " and was renamed to " + renamed, why);
    });
  }
  if (failed) throw Error(ErrorKind::resource, *failed);
  ENSURE(checkpoint, quarantined.empty(), "{}", quarantined);
}

}  // namespace trainctl::checkpoint
