#include "data/formats/cache_file.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "data/formats/file_reader.hpp"

#include <cstdlib>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kMagic = 0x0131'6863'6163'6374;  // "tccach1" and the version

struct Record {
  std::uint64_t size = 0;
  std::uint64_t digest = 0;
};

struct Prefix {
  std::uint64_t magic = kMagic;
  Record head;
  Record body;
};

std::uint64_t digest_of(std::string_view bytes) {
  return hash_bytes(std::as_bytes(std::span(bytes)));
}

std::optional<std::string> read_record(const FileReader& file, std::uint64_t offset,
                                       const Record& record) {
  if (record.size > file.size() || offset > file.size() - record.size) return std::nullopt;
  std::string bytes(record.size, '\0');
  file.read(offset, std::as_writable_bytes(std::span(bytes)));
  if (digest_of(bytes) != record.digest) return std::nullopt;
  return bytes;
}

enum class ReadScope { head, all };

/// Returns nothing for any fault of the file.
std::optional<CacheFile::Content> read_parts(const fs::path& path, ReadScope parts) {
  if (path.empty()) return std::nullopt;
  try {
    const FileReader file(path);
    Prefix prefix;
    file.read(0, std::as_writable_bytes(std::span(&prefix, 1)));
    if (prefix.magic != kMagic) return std::nullopt;
    auto head = read_record(file, sizeof prefix, prefix.head);
    auto body = parts == ReadScope::head
                    ? std::string()
                    : read_record(file, sizeof prefix + prefix.head.size, prefix.body);
    if (!head || !body) return std::nullopt;
    return CacheFile::Content{*std::move(head), *std::move(body)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path cache_root() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "trainctl";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".cache" / "trainctl" : fs::path();
}

CacheFile::CacheFile(std::string_view identity)
    : CacheFile(cache_root().empty() ? fs::path() : cache_root() / "manifests", identity) {}

CacheFile::CacheFile(const fs::path& folder, std::string_view identity) {
  if (!folder.empty()) path_ = folder / to_hex(digest_of(identity));
}

std::optional<std::string> CacheFile::head() const {
  auto content = read_parts(path_, ReadScope::head);
  return content ? std::optional(std::move(content->head)) : std::nullopt;
}

std::optional<CacheFile::Content> CacheFile::read() const {
  return read_parts(path_, ReadScope::all);
}

void CacheFile::write(std::string_view head, std::string_view body) const {
  if (path_.empty()) return;
  Prefix prefix;
  prefix.head = {head.size(), digest_of(head)};
  prefix.body = {body.size(), digest_of(body)};
  try {
    make_folder(path_.parent_path());
    write_atomically(path_, [&](int fd) {
      write_all(fd, {reinterpret_cast<const char*>(&prefix), sizeof prefix}, path_.string());
      write_all(fd, head, path_.string());
      write_all(fd, body, path_.string());
    });
  } catch (const Error&) {  // read-only or full: the next start scans again
  }
}

void CacheFile::remove() const {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

}  // namespace trainctl::data
