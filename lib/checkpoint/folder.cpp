#include "checkpoint/folder.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace trainctl::checkpoint {

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  fs::directory_iterator at(folder, failure);
  if (failure == std::errc::no_such_file_or_directory) return names;
  for (; !failure && at != fs::directory_iterator(); at.increment(failure))
    names.push_back(at->path().filename().string());
  ENSURE(resource, !failure, "cannot read folder {}: {}", printable(folder.string()),
         failure.message());
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code failure;
  const fs::file_type type = fs::symlink_status(path, failure).type();
  ENSURE(resource, type != fs::file_type::none, "cannot stat {}: {}", printable(path.string()),
         failure.message());
  return type == fs::file_type::directory;
}

bool is_committed(const fs::path& checkpoint) {
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(checkpoint / kManifestName, failure);
  return status.type() != fs::file_type::not_found;
}

std::optional<std::string> remove_folder(const fs::path& checkpoint) {
  std::error_code failure;
  if (::unlink((checkpoint / kManifestName).c_str()) != 0 && errno != ENOENT)
    failure = std::error_code(errno, std::generic_category());
  if (!failure) fs::remove_all(checkpoint, failure);
  if (!failure) return std::nullopt;
  return fmt::format("cannot remove {}: {}", printable(checkpoint.string()), failure.message());
}

fs::path quarantine(const fs::path& checkpoint) {
  const fs::path folder = checkpoint.parent_path();
  const std::string name = std::string(kQuarantinePrefix) + checkpoint.filename().string();
  fs::path free = folder / name;
  std::error_code ignored;
  for (int n = 2; fs::symlink_status(free, ignored).type() != fs::file_type::not_found; ++n) {
    ENSURE(resource, n < 10'000,
           "cannot rename the damaged checkpoint {}: 10,000 renamed copies exist",
           printable(checkpoint.string()));
    free = folder / fmt::format("{}-{}", name, n);
  }
  ENSURE(resource, ::rename(checkpoint.c_str(), free.c_str()) == 0,
         "cannot rename the damaged checkpoint {}: {}", printable(checkpoint.string()),
         std::strerror(errno));
  sync_folder(folder);
  return free;
}

void quarantine_and_report(
    const fs::path& checkpoint, const std::string& why,
    const std::function<void(const fs::path& moved, const std::string& why)>& on_quarantine) {
  fs::path moved = checkpoint;
  std::string addition;
  try {
    moved = quarantine(checkpoint);
  } catch (const Error& error) {
    addition = fmt::format("; the checkpoint was not renamed: {}", error.what());
  }
  if (on_quarantine) on_quarantine(moved, why + addition);
}

namespace {

constexpr std::string_view kEpoch = "epoch=";
constexpr std::string_view kMid = "-mid";
constexpr std::string_view kStep = "-step=";

std::optional<std::int64_t> number(std::string_view digits) {
  const auto value = parse_number<std::int64_t>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::string folder_name(const Moment& moment) {
  return fmt::format("{}{:04}{}{}{:06}", kEpoch, moment.epoch_number(),
                     moment.mid_epoch ? kMid : "", kStep, moment.global_step);
}

std::optional<Moment> parse_folder_name(std::string_view name) {
  const std::size_t middle = name.find(kStep);
  if (!name.starts_with(kEpoch) || middle == std::string_view::npos || middle < kEpoch.size())
    return std::nullopt;
  std::string_view digits = name.substr(kEpoch.size(), middle - kEpoch.size());
  const bool mid_epoch = digits.ends_with(kMid);
  if (mid_epoch) digits.remove_suffix(kMid.size());
  const auto epoch = number(digits);
  const auto step = number(name.substr(middle + kStep.size()));
  if (!epoch || !step || (mid_epoch && *epoch == 0)) return std::nullopt;
  const Moment moment{*step, mid_epoch ? *epoch - 1 : *epoch, mid_epoch};
  return folder_name(moment) == name ? std::optional(moment) : std::nullopt;
}

std::string part_name(int rank) { return fmt::format("rank_{}.part", rank); }

}  // namespace trainctl::checkpoint
