#include "data/formats/manifest.hpp"

#include "data/core/parallel.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace trainctl::data {
namespace {

constexpr std::int64_t kTick = 2'000'000'000;  // ns

std::optional<struct stat> stat_of(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

std::uint64_t count_entries(const fs::path& folder) {
  std::error_code failure;
  std::uint64_t count = 0;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) ++count;
  ENSURE(data, !failure, "cannot read the folder {}: {}", shown(folder), failure.message());
  return count;
}

enum class CheckDepth { times, entries };

bool holds(const PathStamp& dependency, CheckDepth depth) {
  const auto now = stat_of(dependency.path);
  if (!now || stamp_of(*now).mtime_ns != dependency.mtime_ns) return false;
  if (!S_ISDIR(now->st_mode)) return stamp_of(*now).size == dependency.size;
  return depth == CheckDepth::times || count_entries(dependency.path) == dependency.size;
}

/// The part of a manifest that shows whether it is valid, with the facts.
struct Head {
  std::vector<PathStamp> dependencies;
  Facts facts = ImageFiles{}.facts();

  static auto parts(auto& self) {
    auto& label = self.facts.layout[1];
    return std::tie(self.dependencies, self.facts.samples, self.facts.classes, label.dtype,
                    label.shape, self.facts.class_names);
  }
};

std::optional<Head> fresh_head(std::string_view bytes, CheckDepth depth) {
  Head head;
  const auto is_fresh = [&](const PathStamp& dependency) { return holds(dependency, depth); };
  if (!decode(bytes, head) || !std::ranges::all_of(head.dependencies, is_fresh))
    return std::nullopt;
  return head;
}

constexpr std::int64_t kThreads = 8;
constexpr std::size_t kAtOnce = 1024;  // neighbors are mostly in the same folder

bool is_as_listed(int folder, const std::string& name, const FileStamp& listed) {
  struct stat info {};
  return ::fstatat(folder, name.c_str(), &info, 0) == 0 && stamp_of(info) == listed;
}

}  // namespace

PathStamp dependency_on(const fs::path& path) {
  const auto info = stat_of(path);
  ENSURE(data, info, "cannot read {}: {}", shown(path), std::strerror(errno));
  const FileStamp stamp = stamp_of(*info);
  return {fs::absolute(path).lexically_normal().string(), stamp.mtime_ns,
          S_ISDIR(info->st_mode) ? count_entries(path) : stamp.size};
}

bool is_settled(std::int64_t mtime_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return mtime_ns <= std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - kTick;
}

std::optional<Facts> ManifestCache::facts() const {
  const std::optional<std::string> bytes = file_.head();
  std::optional<Head> head = bytes ? fresh_head(*bytes, CheckDepth::times) : std::nullopt;
  if (!head) return std::nullopt;
  return std::move(head->facts);
}

std::optional<ImageFiles> ManifestCache::load() const {
  const std::optional<CacheFile::Content> content = file_.read();
  std::optional<Head> head =
      content ? fresh_head(content->head, CheckDepth::entries) : std::nullopt;
  ImageFiles files;
  if (!head || !decode(content->body, files) || !files.files.is_valid() || !files.names.is_valid())
    return std::nullopt;
  files.labels.field = std::move(head->facts.layout[1]);
  files.labels.classes = head->facts.classes;
  files.labels.class_names = std::move(head->facts.class_names);
  return files;
}

void ManifestCache::save(const std::vector<PathStamp>& dependencies,
                         const ImageFiles& files) const {
  const auto is_settled_now = [](const PathStamp& one) { return is_settled(one.mtime_ns); };
  if (std::ranges::all_of(dependencies, is_settled_now))
    file_.write(encode(Head{dependencies, files.facts()}), encode(files));
}

bool is_as_listed(const fs::path& root, const ImageFiles& files) {
  const Fd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::size_t count = files.files.size();
  if (!folder.valid() || files.stamps.size() != count) return false;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> same = true;
  const auto work = [&] {
    for (std::size_t first = next.fetch_add(kAtOnce); first < count && same;
         first = next.fetch_add(kAtOnce)) {
      for (std::size_t i = first; i < std::min(first + kAtOnce, count); ++i) {
        if (!is_as_listed(folder.get(), std::string(files.files[i]), files.stamps[i])) same = false;
      }
    }
  };
  run_in_threads(std::min(kThreads, static_cast<std::int64_t>(count / kAtOnce)), work);
  return same;
}

}  // namespace trainctl::data
