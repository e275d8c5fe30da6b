#include "data/remote/local_tier.hpp"

#include "base/hash.hpp"
#include "base/url.hpp"
#include "data/remote/transfers.hpp"

#include <fnmatch.h>

namespace trainctl::data {
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
  ENSURE(data, object, "{} does not exist\nhint: correct the path", shown(path));
  return object;
}

std::shared_ptr<CachedObject> LocalTier::find(const fs::path& path) {
  const Url url = parse_url(path);
  return CachedObject::open({folder_, store_of(url)}, url);
}

bool LocalTier::has_local_copy(const fs::path& path) const {
  std::error_code failure;
  return fs::exists(folder_->files(parse_url(path).text).data, failure);
}

std::vector<ObjectInfo> LocalTier::list(const std::string& prefix) {
  const Url url = parse_url(prefix);
  const CacheFile cache = list_cache(url);
  const auto read_cached = [&]() -> std::optional<std::vector<ObjectInfo>> {
    const auto content = cache.read();
    std::vector<ObjectInfo> objects;
    if (!content || content->head != url.text || !decode(content->body, objects))
      return std::nullopt;
    return objects;
  };
  if (auto objects = read_cached()) return *std::move(objects);
  const Fd guard = folder_->lock(hash_bytes(std::as_bytes(std::span(url.text)), 1));
  if (auto objects = read_cached()) return *std::move(objects);
  std::vector<ObjectInfo> objects = store_of(url)->list(url);
  cache.write(url.text, encode(objects));
  return objects;
}

void LocalTier::remove_cached_list(const std::string& prefix) const {
  list_cache(parse_url(prefix)).remove();
}

CacheFile LocalTier::list_cache(const Url& url) const {
  return CacheFile(folder_->path() / "lists", url.text);
}

namespace {

struct Mount {
  std::mutex mutex;
  spec::Dataset options;
  std::shared_ptr<LocalTier> tier;  // null until first use
};

Mount& mount() {
  // The object is never destroyed, because at program exit the state of libcurl may be destroyed
  // before it.
  static Mount& one = *new Mount;
  return one;
}

fs::path default_folder() {
  const fs::path cache = cache_root();
  ENSURE(config, !cache.empty(),
         "remote paths need a folder for local copies, but neither dataset.cache.local nor HOME is "
         "set\nhint: set dataset.cache.local");
  return cache / "remote";
}

/// Creates its store for the first request: a tier with complete copies does not need libcurl.
class LazyStore final : public ObjectStore {
 public:
  using Make = std::function<std::unique_ptr<ObjectStore>()>;
  explicit LazyStore(Make make) : make_(std::move(make)) {}

  std::optional<ObjectPart> read(const Url& url, const ByteRange& range) override {
    return store().read(url, range);
  }
  std::vector<ObjectInfo> list(const Url& prefix) override { return store().list(prefix); }

 private:
  ObjectStore& store() {
    std::call_once(once_, [&] { store_ = make_(); });
    return *store_;
  }

  Make make_;
  std::once_flag once_;
  std::unique_ptr<ObjectStore> store_;
};

std::shared_ptr<Transfers> transfers_of(const spec::Remote& options) {
  return std::make_shared<Transfers>(
      curl_client(), TransferOptions{.retries = options.retries, .timeout_s = options.timeout_s});
}

S3Options s3_options(const spec::Remote& options) {
  S3Options s3{options.endpoint.value_or(""), options.region, std::nullopt};
  if (options.access_key && options.secret_key) {
    s3.signing = Signing{options.region, options.access_key->value(), options.secret_key->value(),
                         options.session_token ? options.session_token->value() : std::string()};
  }
  return s3;
}

std::shared_ptr<LocalTier> make_tier(const spec::Dataset& data) {
  const spec::Remote remote = data.remote;
  const auto http =
      std::make_shared<LazyStore>([remote] { return http_store(transfers_of(remote)); });
  const auto s3 = std::make_shared<LazyStore>(
      [remote] { return s3_store(transfers_of(remote), s3_options(remote)); });
  LocalTier::Stores stores{{"http", http}, {"https", http}, {"s3", s3}, {"file", file_store()}};
  return std::make_shared<LocalTier>(data.cache.local ? *data.cache.local : default_folder(),
                                     data.cache.of_disk(), std::move(stores));
}

bool path_exists(const fs::path& path) {
  if (is_remote(path)) return remote_tier()->find(path) != nullptr;
  std::error_code failure;
  const bool there = fs::exists(path, failure);
  ENSURE(data, !failure, "cannot read folder {}: {}", shown(path.parent_path()), failure.message());
  return there;
}

std::vector<std::string> list_names(const fs::path& folder) {
  std::vector<std::string> names;
  if (is_remote(folder)) {
    for (ObjectInfo& object : remote_tier()->list(folder.string() + "/"))
      names.push_back(std::move(object.name));
    return names;
  }
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
    names.push_back(entry->path().filename().string());
  ENSURE(data, !failure, "cannot read folder {}: {}", shown(folder), failure.message());
  return names;
}

}  // namespace

void mount_remote(const spec::Dataset& options) {
  Mount& one = mount();
  const std::lock_guard guard(one.mutex);
  one.options = options;
  one.tier = nullptr;
}

void mount_remote(std::shared_ptr<LocalTier> tier) {
  Mount& one = mount();
  const std::lock_guard guard(one.mutex);
  one.tier = std::move(tier);
}

std::shared_ptr<LocalTier> remote_tier() {
  Mount& one = mount();
  const std::lock_guard guard(one.mutex);
  if (!one.tier) one.tier = make_tier(one.options);
  return one.tier;
}

std::optional<fs::path> first_existing(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    if (is_remote(path) && remote_tier()->has_local_copy(path)) return path;
  }
  for (const fs::path& path : paths) {
    if (path_exists(path)) return path;
  }
  return std::nullopt;
}

std::vector<fs::path> matching_paths(const fs::path& pattern) {
  const fs::path folder = pattern.parent_path();
  const std::string wanted = pattern.filename().string();
  std::vector<fs::path> found;
  std::vector<std::string> names = list_names(folder);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (::fnmatch(wanted.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
      found.push_back(folder / name);
  }
  ENSURE(data, !found.empty(), "no file matches {}", shown(pattern));
  return found;
}

Error add_local_copy(const Error& error, const Dataset& dataset, std::int64_t index) {
  const std::string url = dataset.fetchable()->object(index);
  if (!is_remote(url)) return error;
  const std::string copy = remote_tier()->folder().files(url).data.string();
  return {error.kind(),
          fmt::format("{} (read from {}, the local copy of {})\nhint: if the original is intact, "
                      "delete the local copy, which is then downloaded again",
                      without_hint(error.what()), printable(copy), printable(url)),
          error.where()};
}

}  // namespace trainctl::data
