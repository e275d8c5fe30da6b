#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"

#include <unistd.h>

#include <algorithm>

namespace trainctl::checkpoint {
namespace {

constexpr std::size_t kLeast = 2;  // that verify

}  // namespace

/// What this process has read once is only looked at.
std::optional<std::string> Store::damage_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  const auto seal = seals_.find(name);
  if (seal != seals_.end() && is_as_sealed(checkpoint, seal->second)) return std::nullopt;
  std::optional<std::string> why = damage(checkpoint);
  if (!why) seals_[name] = seal_of(checkpoint);
  return why;
}

/// Of the committed ones.
Store::Surplus Store::surplus(std::span<const std::string> keep) {
  std::vector<fs::path> kept;
  std::vector<fs::path> others;
  const auto last = pointed(Link::last);
  const auto best = pointed(Link::best);
  for (const Found& found : list()) {
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
  // The newest of the others make up for what is missing.
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
  for (const std::string& name : names_in(folder_)) {
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
  std::string told;
  for (const auto& [path, damage] : surplus.damaged) {
    move_and_tell(path, damage, [&](const fs::path& moved, const std::string& why) {
      told += fmt::format("{}{} is damaged and lies in {} now: {}", told.empty() ? "" : "; ",
                          path.filename().string(), moved.filename().string(), why);
    });
  }
  if (failed) throw Error(ErrorKind::resource, *failed);
  ENSURE(checkpoint, told.empty(), "{}", told);
}

}  // namespace trainctl::checkpoint
