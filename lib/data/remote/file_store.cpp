#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/formats/file_reader.hpp"
#include "data/remote/object_stores.hpp"

#include <sys/stat.h>

#include <algorithm>

namespace trainctl::data {
namespace {

std::string etag_of(const FileStamp& stamp) {
  return fmt::format("{}-{}", stamp.size, stamp.mtime_ns);
}

/// Nothing for a folder. A list that left out what a link leads to would be short without a word.
std::optional<FileStamp> stamp_of_entry(const fs::directory_entry& entry) {
  std::error_code ignored;
  const bool link = entry.is_symlink(ignored);
  struct stat info {};
  const bool there = ::stat(entry.path().c_str(), &info) == 0;
  ENSURE(data, there || !link, "{} is a symbolic link that leads nowhere; remove it",
         printable(entry.path().string()));
  ENSURE(data, !link || !S_ISDIR(info.st_mode),
         "{} is a symbolic link to a folder, which file:// does not follow; put the folder in its "
         "place, or leave file:// out and write follow_links: true",
         printable(entry.path().string()));
  if (!there || !S_ISREG(info.st_mode)) return std::nullopt;
  return stamp_of(info);
}

class FileStore final : public ObjectStore {
 public:
  std::optional<Piece> read(const Url& url, const ByteRange& range) override {
    std::error_code failure;
    const bool there = fs::exists(url.path, failure);
    if (!there && !failure) return std::nullopt;
    const FileReader file{fs::path(url.path)};
    Piece piece{{}, file.size(), etag_of(file.stamp())};
    const std::uint64_t end = std::min(range.offset + range.size, file.size());
    piece.bytes.resize(end - std::min(range.offset, end));
    file.read(range.offset, std::as_writable_bytes(std::span(piece.bytes)));
    return piece;
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    const fs::path folder = prefix.path.substr(0, prefix.path.rfind('/') + 1);
    std::vector<ObjectInfo> found;
    std::error_code failure;
    fs::recursive_directory_iterator entry(folder, failure);
    for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      const std::string path = entry->path().string();
      if (!path.starts_with(prefix.path)) continue;
      if (const auto stamp = stamp_of_entry(*entry))
        found.push_back({path.substr(prefix.path.size()), stamp->size, etag_of(*stamp)});
    }
    ENSURE(data, !failure, "cannot look into {}: {}", printable(folder.string()),
           failure.message());
    std::sort(found.begin(), found.end(),
              [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
    return found;
  }
};

}  // namespace

std::unique_ptr<ObjectStore> file_store() { return std::make_unique<FileStore>(); }

}  // namespace trainctl::data
