#include "checkpoint/parts.hpp"

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "checkpoint/verify.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>

namespace trainctl::checkpoint {
namespace {

/// A group of rank 0's tensors that contains weights of the model.
struct WeightGroup {
  std::string_view prefix;
  std::string_view file;  // file name in a checkpoint; empty: changes too often for a separate file
};

/// A group that equals an earlier group is not stored again. Best weights come first: they rarely
/// change between saves, so later checkpoints can share their file, and the model of the best epoch
/// refers to it.
constexpr std::array<WeightGroup, 4> kGroups{
    {{"keeper/best.", "best.safetensors"},
     {"keeper/stoppers_best.", "stoppers_best.safetensors"},
     {"model/", ""},
     {"averager/", ""}}};

using Entries = std::vector<const container::Entry*>;

Entries with_prefix(std::span<const container::Entry> entries, std::string_view prefix) {
  Entries found;
  for (const container::Entry& entry : entries) {
    if (entry.name.starts_with(prefix)) found.push_back(&entry);
  }
  return found;
}

/// Compares dtypes, shapes and bytes, but not names.
bool same_tensor(const container::Entry& entry, const auto& other) {
  const std::span<const std::byte> bytes = other.bytes;
  return entry.dtype == other.dtype && entry.shape == other.shape &&
         entry.bytes.size() == bytes.size() &&
         (bytes.empty() || std::memcmp(entry.bytes.data(), bytes.data(), bytes.size()) == 0);
}

bool same_groups(const Entries& copies, std::string_view prefix, const Entries& originals,
                 std::string_view original_prefix) {
  const auto suffix = [](const container::Entry* entry, std::string_view beginning) {
    return std::string_view(entry->name).substr(beginning.size());
  };
  return std::ranges::equal(copies, originals, [&](const auto* copy, const auto* original) {
    return suffix(copy, prefix) == suffix(original, original_prefix) &&
           same_tensor(*copy, *original);
  });
}

/// Returns the first earlier group with the same tensors.
std::optional<std::string_view> original_of(const WeightGroup& group, const Entries& copies,
                                            std::span<const container::Entry> entries) {
  for (const WeightGroup& original : kGroups) {
    if (original.prefix == group.prefix) break;
    if (same_groups(copies, group.prefix, with_prefix(entries, original.prefix), original.prefix))
      return original.prefix;
  }
  return std::nullopt;
}

std::vector<safetensors::View> views_of(const Entries& entries, std::string_view prefix) {
  std::vector<safetensors::View> views;
  for (const container::Entry* entry : entries)
    views.push_back({entry->name.substr(prefix.size()), entry->dtype, entry->shape, entry->bytes});
  return views;
}

/// Releases pages that were read. They stay in the page cache, but no longer count as memory of
/// this process.
void release_pages(const FileMapping& mapping) {
  const std::span<const std::byte> bytes = mapping.bytes();
  if (!bytes.empty())
    (void)::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_DONTNEED);
}

bool holds(const safetensors::File& file, const Entries& entries, std::string_view prefix) {
  if (file.tensors().size() != entries.size()) return false;
  std::unordered_map<std::string_view, const safetensors::View*> by_name;
  for (const safetensors::View& tensor : file.tensors()) by_name.emplace(tensor.name, &tensor);
  return std::ranges::all_of(entries, [&](const container::Entry* entry) {
    const auto found = by_name.find(std::string_view(entry->name).substr(prefix.size()));
    const bool same = found != by_name.end() && same_tensor(*entry, *found->second);
    release_pages(file.mapping());
    return same;
  });
}

/// Returns files of other checkpoints that may already contain the weights.
std::vector<fs::path> candidates(const Store& store, const fs::path& checkpoint) {
  std::vector<fs::path> paths;
  for (const StoredCheckpoint& found : store.list()) {
    if (!found.manifest || found.path == checkpoint) continue;
    for (const Manifest::SharedGroup& shared : found.manifest->shared) {
      if (shared.same_as.empty()) paths.push_back(found.path / shared.file);
    }
  }
  return paths;
}

/// Removes `to` unless it contains the tensors. The comparison follows the link or clone, because
/// another thread may replace the source at any time.
bool keep_if_same(const fs::path& to, const Entries& entries, std::string_view prefix) {
  std::error_code ignored;
  try {
    if (fs::is_regular_file(fs::symlink_status(to, ignored)) &&
        holds(safetensors::File(to), entries, prefix))
      return true;
  } catch (const Error&) {  // the file is damaged or has another format
  }
  ::unlink(to.c_str());
  return false;
}

/// Hard-links the candidate to `to`. Returns false when the candidate does not exist or the file
/// system has no hard links.
bool link_same(const fs::path& candidate, const fs::path& to, const Entries& entries,
               std::string_view prefix) {
  return ::link(candidate.c_str(), to.c_str()) == 0 && keep_if_same(to, entries, prefix);
}

/// Makes `to` a copy-on-write clone of the source (FICLONE). Returns false when the file system
/// does not support clones.
bool clone_same(const fs::path& source, const fs::path& to, const Entries& entries,
                std::string_view prefix) {
  const Fd from(::open(source.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!from.valid()) return false;
  const Fd copy(::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!copy.valid()) return false;
  if (::ioctl(copy.get(), FICLONE, from.get()) == 0 && ::fsync(copy.get()) == 0)
    return keep_if_same(to, entries, prefix);
  ::unlink(to.c_str());
  return false;
}

Manifest::SharedGroup share_file(const Store& store, const fs::path& checkpoint,
                                 const WeightGroup& group, const Entries& entries) {
  const fs::path path = checkpoint / group.file;
  // Users may write to best.safetensors next to the checkpoints, so it is cloned but never
  // hard-linked.
  const fs::path best = checkpoint.parent_path() / "best.safetensors";
  const bool is_there =
      std::ranges::any_of(candidates(store, checkpoint),
                          [&](const fs::path& candidate) {
                            return link_same(candidate, path, entries, group.prefix);
                          }) ||
      clone_same(best, path, entries, group.prefix);
  if (!is_there) safetensors::write(path, views_of(entries, group.prefix), {{"format", "pt"}});
  std::error_code failure;
  const std::uintmax_t bytes = fs::file_size(path, failure);
  ENSURE(resource, !failure, "cannot read {}: {}", printable(path.string()), failure.message());
  return {std::string(group.prefix), "", std::string(group.file), bytes, checksum_of_file(path)};
}

}  // namespace

StoredOnce store_once(const Store& store, const fs::path& checkpoint,
                      std::span<const container::Entry> entries) {
  StoredOnce stored;
  for (const WeightGroup& group : kGroups) {
    const Entries copies = with_prefix(entries, group.prefix);
    if (copies.empty()) continue;
    if (const auto original = original_of(group, copies, entries)) {
      stored.shared.push_back(
          {.group = std::string(group.prefix), .same_as = std::string(*original)});
    } else if (!group.file.empty()) {
      stored.shared.push_back(share_file(store, checkpoint, group, copies));
    }
  }
  const auto is_shared = [&](const container::Entry& entry) {
    return std::ranges::any_of(
        stored.shared, [&](const auto& shared) { return entry.name.starts_with(shared.group); });
  };
  std::ranges::remove_copy_if(entries, std::back_inserter(stored.part), is_shared);
  return stored;
}

PartReader::PartReader(const fs::path& checkpoint, const Manifest& manifest, int rank)
    : file_(read_part(checkpoint, manifest.parts.at(static_cast<std::size_t>(rank)))),
      entries_(file_.entries()) {
  if (rank == 0) {
    for (const Manifest::SharedGroup& shared : manifest.shared) {
      if (shared.same_as.empty()) {
        add_file(checkpoint, shared);
      } else {
        add_alias(shared);
      }
    }
  }
  index();
}

PartReader::~PartReader() = default;
PartReader::PartReader(PartReader&& other) noexcept = default;
PartReader& PartReader::operator=(PartReader&& other) noexcept = default;

void PartReader::add_alias(const Manifest::SharedGroup& shared) {
  const std::size_t before = entries_.size();
  for (std::size_t i = 0; i < before; ++i) {
    container::Entry entry = entries_[i];
    if (!entry.name.starts_with(shared.same_as)) continue;
    entry.name = shared.group + entry.name.substr(shared.same_as.size());
    entries_.push_back(std::move(entry));
  }
}

void PartReader::add_file(const fs::path& checkpoint, const Manifest::SharedGroup& shared) {
  check_shared_file(checkpoint, shared);
  shared_.push_back(std::make_unique<safetensors::File>(checkpoint / shared.file));
  for (const safetensors::View& tensor : shared_.back()->tensors())
    entries_.push_back({shared.group + tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
}

void PartReader::index() {
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  const auto name_at = [this](std::uint32_t i) -> const std::string& { return entries_[i].name; };
  std::ranges::sort(by_name_, {}, name_at);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_at);
  ENSURE(checkpoint, twice == by_name_.end(), "the checkpoint contains the tensor '{}' twice",
         printable(entries_[*twice].name));
}

const container::Entry* PartReader::find(std::string_view name) const {
  const auto name_at = [this](std::uint32_t i) -> std::string_view { return entries_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_at);
  return found == by_name_.end() || name_at(*found) != name ? nullptr : &entries_[*found];
}

}  // namespace trainctl::checkpoint
