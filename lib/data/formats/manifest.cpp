#include "data/formats/manifest.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "data/formats/cache_file.hpp"
#include "data/formats/file_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace trainctl::data {
namespace {

constexpr std::int64_t kTick = 2'000'000'000;  // ns

struct PathState {
  FileStamp stamp;
  bool folder = false;
};

std::optional<PathState> state_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return PathState{stamp_of(info), S_ISDIR(info.st_mode)};
}

std::uint64_t count_entries(const fs::path& folder) {
  std::error_code failure;
  std::uint64_t count = 0;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) ++count;
  ENSURE(data, !failure, "cannot look into {}: {}", printable(folder.string()), failure.message());
  return count;
}

enum class Depth { times, entries };

bool holds(const Dependency& dependency, Depth depth) {
  const std::optional<PathState> now = state_of(dependency.path);
  if (!now || now->stamp.mtime_ns != dependency.mtime_ns) return false;
  if (!now->folder) return now->stamp.size == dependency.size;
  return depth == Depth::times || count_entries(dependency.path) == dependency.size;
}

void put(ByteWriter& out, const NameList& names) {
  out.put_text(names.blob());
  out.put_all(names.ends());
}

NameList get_names(ByteReader& in) {
  std::string blob = in.get_text();
  return {std::move(blob), in.get_all<std::uint64_t>()};
}

std::string encode_head(const std::vector<Dependency>& dependencies, const ImageFiles& files) {
  ByteWriter out;
  out.put(std::uint64_t{dependencies.size()});
  for (const Dependency& one : dependencies) {
    out.put_text(one.path);
    out.put(one.mtime_ns);
    out.put(one.size);
  }
  out.put(files.samples());
  out.put(files.labels.classes);
  out.put(files.labels.field.dtype);
  out.put_all(files.labels.field.shape);
  out.put(std::uint64_t{files.labels.class_names.size()});
  for (const std::string& name : files.labels.class_names) out.put_text(name);
  return out.bytes();
}

struct Head {
  std::vector<Dependency> dependencies;
  Facts facts;
};

std::optional<Head> decode_head(std::string_view bytes) {
  ByteReader in(bytes);
  Head head;
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left) {
    Dependency& one = head.dependencies.emplace_back();
    one.path = in.get_text();
    one.mtime_ns = in.get<std::int64_t>();
    one.size = in.get<std::uint64_t>();
  }
  head.facts.samples = in.get<std::int64_t>();
  head.facts.classes = in.get<std::int64_t>();
  Field label{"label", in.get<Dtype>(), {}};
  label.shape = in.get_all<std::int64_t>();
  head.facts.layout = {image_field({0, 0, 3}), std::move(label)};
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left) {
    head.facts.class_names.push_back(in.get_text());
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return head;
}

std::optional<Head> fresh_head(std::string_view bytes, Depth depth) {
  std::optional<Head> head = decode_head(bytes);
  if (!head) return std::nullopt;
  const auto is_fresh = [&](const Dependency& dependency) { return holds(dependency, depth); };
  if (!std::all_of(head->dependencies.begin(), head->dependencies.end(), is_fresh))
    return std::nullopt;
  return head;
}

std::string encode_body(const ImageFiles& files) {
  ByteWriter out;
  put(out, files.files);
  out.put_all(files.stamps);
  put(out, files.names);
  out.put_all(files.file_of);
  out.put_all(files.offsets);
  out.put_all(files.sizes);
  out.put_all(files.labels.rows);
  return out.bytes();
}

std::optional<ImageFiles> decode_body(std::string_view bytes, const Facts& facts) {
  ByteReader in(bytes);
  ImageFiles files;
  files.files = get_names(in);
  files.stamps = in.get_all<FileStamp>();
  files.names = get_names(in);
  files.file_of = in.get_all<std::uint32_t>();
  files.offsets = in.get_all<std::uint64_t>();
  files.sizes = in.get_all<std::uint64_t>();
  files.labels.rows = in.get_all<std::byte>();
  files.labels.field = facts.layout[1];
  files.labels.classes = facts.classes;
  files.labels.class_names = facts.class_names;
  if (!in.ok() || !in.at_end() || !files.files.valid() || !files.names.valid()) return std::nullopt;
  return files;
}

}  // namespace

Dependency dependency_on(const fs::path& path) {
  const std::optional<PathState> state = state_of(path);
  ENSURE(data, state, "cannot read {}: {}", printable(path.string()), std::strerror(errno));
  return {fs::absolute(path).lexically_normal().string(), state->stamp.mtime_ns,
          state->folder ? count_entries(path) : state->stamp.size};
}

bool is_settled(std::int64_t mtime_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return mtime_ns <= std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - kTick;
}

std::optional<Facts> ManifestCache::facts() const {
  const std::optional<std::string> bytes = file_.head();
  if (!bytes) return std::nullopt;
  std::optional<Head> head = fresh_head(*bytes, Depth::times);
  if (!head) return std::nullopt;
  return std::move(head->facts);
}

std::optional<ImageFiles> ManifestCache::load() const {
  const std::optional<CacheFile::Content> content = file_.read();
  if (!content) return std::nullopt;
  const std::optional<Head> head = fresh_head(content->head, Depth::entries);
  if (!head) return std::nullopt;
  return decode_body(content->body, head->facts);
}

void ManifestCache::save(const std::vector<Dependency>& dependencies,
                         const ImageFiles& files) const {
  for (const Dependency& dependency : dependencies) {
    if (!is_settled(dependency.mtime_ns)) return;
  }
  file_.write(encode_head(dependencies, files), encode_body(files));
}

namespace {

constexpr std::size_t kThreads = 8;
constexpr std::size_t kAtOnce = 1024;  // neighbours, which lie in one folder mostly

bool is_as_listed(int folder, const std::string& name, const FileStamp& listed) {
  struct stat info {};
  return ::fstatat(folder, name.c_str(), &info, 0) == 0 && stamp_of(info) == listed;
}

}  // namespace

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
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < std::min(kThreads, count / kAtOnce); ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error&) {  // fewer are enough
  }
  work();
  helpers.clear();
  return same;
}

}  // namespace trainctl::data
