#include "data/remote/local_tier.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "data/formats/byte_codec.hpp"

#include <optional>
#include <utility>

namespace trainctl::data {
namespace {

std::string encode(const std::vector<ObjectInfo>& objects) {
  ByteWriter out;
  out.put(std::uint64_t{objects.size()});
  for (const ObjectInfo& object : objects) {
    out.put_text(object.name);
    out.put(object.size);
    out.put_text(object.etag);
  }
  return out.bytes();
}

std::optional<std::vector<ObjectInfo>> decode(std::string_view bytes) {
  ByteReader in(bytes);
  std::vector<ObjectInfo> objects;
  for (auto left = in.get<std::uint64_t>(); left > 0 && in.ok(); --left) {
    ObjectInfo& object = objects.emplace_back();
    object.name = in.get_text();
    object.size = in.get<std::uint64_t>();
    object.etag = in.get_text();
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return objects;
}

}  // namespace

LocalTier::LocalTier(fs::path folder, const spec::Budget& budget, Stores stores)
    : folder_(std::make_shared<TierFolder>(std::move(folder), budget)),
      stores_(std::move(stores)) {}

const std::shared_ptr<ObjectStore>& LocalTier::store_of(const Url& url) const {
  const auto found = stores_.find(url.scheme);
  ASSERT(found != stores_.end());
  return found->second;
}

std::shared_ptr<CachedObject> LocalTier::open(const fs::path& path) {
  auto object = find(path);
  ENSURE(data, object, "{} does not exist; correct the path", printable(path.string()));
  return object;
}

std::shared_ptr<CachedObject> LocalTier::find(const fs::path& path) {
  const Url url = parse_url(path);
  return CachedObject::open({folder_, store_of(url)}, url);
}

bool LocalTier::is_begun(const fs::path& path) const {
  return CachedObject::is_begun(*folder_, parse_url(path));
}

std::vector<ObjectInfo> LocalTier::list(const std::string& prefix) {
  const Url url = parse_url(prefix);
  const CacheFile cache = list_cache(url);
  const auto kept = [&]() -> std::optional<std::vector<ObjectInfo>> {
    const auto content = cache.read();
    return content && content->head == url.text ? decode(content->body) : std::nullopt;
  };
  if (auto objects = kept()) return *std::move(objects);
  const Fd guard = folder_->lock(hash_bytes(std::as_bytes(std::span(url.text)), 1));
  if (auto objects = kept()) return *std::move(objects);
  std::vector<ObjectInfo> objects = store_of(url)->list(url);
  cache.write(url.text, encode(objects));
  return objects;
}

void LocalTier::forget_list(const std::string& prefix) const {
  list_cache(parse_url(prefix)).remove();
}

CacheFile LocalTier::list_cache(const Url& url) const {
  return CacheFile(folder_->path() / "lists", url.text);
}

}  // namespace trainctl::data
