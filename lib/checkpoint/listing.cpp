#include "checkpoint/listing.hpp"

#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

namespace trainctl::checkpoint {
namespace {

/// Adds up file sizes; counts a file with several hard links once, like `du`.
class DiskUse {
 public:
  std::uint64_t add_files_in(const fs::path& folder) {
    std::uint64_t sum = 0;
    for (const std::string& name : file_names(folder)) {
      struct stat info {};
      if (::lstat((folder / name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (counted_.emplace(info.st_dev, info.st_ino).second)
        sum += static_cast<std::uint64_t>(info.st_size);
    }
    return sum;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> counted_;
};

/// Parses "corrupt-epoch=0001-step=000020-2" as "epoch=0001-step=000020".
std::optional<Moment> moment_of_quarantined(std::string_view name) {
  name.remove_prefix(kQuarantinePrefix.size());
  if (const auto moment = parse_folder_name(name)) return moment;
  const std::size_t number = name.rfind('-');
  return number == std::string_view::npos ? std::nullopt
                                          : parse_folder_name(name.substr(0, number));
}

CheckpointInfo surveyed(StoredCheckpoint found, Depth depth, DiskUse& use) {
  CheckpointInfo row{.name = found.name,
                     .state = found.manifest ? State::committed : State::damaged,
                     .moment = found.moment,
                     .manifest = std::move(found.manifest),
                     .bytes = use.add_files_in(found.path),
                     .why = found.why};
  if (!found.committed) row.state = State::unfinished;
  if (found.unsupported) row.state = State::unsupported;
  if (depth == Depth::manifests || row.state != State::committed) return row;
  row.why = damage(found.path).value_or("");
  row.state = row.why.empty() ? State::whole : State::damaged;
  return row;
}

CheckpointInfo quarantined_row(const fs::path& folder, const std::string& name, DiskUse& use) {
  return {.name = name,
          .state = State::quarantined,
          .moment = moment_of_quarantined(name),
          .manifest = {},
          .bytes = use.add_files_in(folder / name),
          .why = "it is damaged and was renamed"};
}

}  // namespace

std::vector<CheckpointInfo> survey(const fs::path& folder, Depth depth) {
  const Store store(folder);
  const auto last = store.pointed(Link::last);
  const auto best = store.pointed(Link::best);
  DiskUse use;
  std::vector<CheckpointInfo> rows;
  for (StoredCheckpoint& found : store.list()) {
    const fs::path path = found.path;
    rows.push_back(surveyed(std::move(found), depth, use));
    rows.back().is_last = last && *last == path;
    rows.back().is_best = best && *best == path;
  }
  std::vector<std::string> names = file_names(folder);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (name.starts_with(kQuarantinePrefix) && is_folder(folder / name))
      rows.push_back(quarantined_row(folder, name, use));
  }
  return rows;
}

}  // namespace trainctl::checkpoint
