#pragma once

#include "data/formats/cache_file.hpp"
#include "data/remote/cached_object.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/tier_folder.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::data {

/// The way from remote paths to files of this machine. Called from several threads.
class LocalTier {
 public:
  using Stores = std::map<std::string, std::shared_ptr<ObjectStore>>;  // by scheme

  LocalTier(fs::path folder, const spec::Budget& budget, Stores stores);

  /// The local copy, begun where there is none. Throws Error(data) where there is no such object.
  std::shared_ptr<CachedObject> open(const fs::path& path);
  /// The same; null where there is no such object.
  std::shared_ptr<CachedObject> find(const fs::path& path);
  /// Whether a copy of it has been begun; asks nobody.
  [[nodiscard]] bool is_begun(const fs::path& path) const;
  /// The objects whose path begins so, sorted by name; asked for once and kept.
  std::vector<ObjectInfo> list(const std::string& prefix);
  /// The next list() asks again.
  void forget_list(const std::string& prefix) const;

  [[nodiscard]] TierFolder& folder() const { return *folder_; }

 private:
  [[nodiscard]] const std::shared_ptr<ObjectStore>& store_of(const Url& url) const;
  [[nodiscard]] CacheFile list_cache(const Url& url) const;

  std::shared_ptr<TierFolder> folder_;
  Stores stores_;
};

}  // namespace trainctl::data
