#pragma once

#include "base/error.hpp"
#include "data/core/dataset.hpp"
#include "data/formats/cache_file.hpp"
#include "data/remote/cached_object.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/tier_folder.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

/// Sets what remote paths of this process are opened through, as a mount does for the paths of a
/// folder: sources open paths and need not know where they lead. Nothing happens on disk or in the
/// network until a remote path is opened.
void mount_remote(const spec::Dataset& options);
/// The same with a tier made elsewhere; for tests.
void mount_remote(std::shared_ptr<LocalTier> tier);

/// Through which remote paths are opened; what mount_remote() said, or the defaults.
std::shared_ptr<LocalTier> remote_tier();

/// The first of the paths that there is. Of remote ones, those with a local copy are tried first,
/// so that nobody is asked for a name that is known to be absent.
std::optional<std::filesystem::path> first_existing(
    const std::vector<std::filesystem::path>& paths);

/// The paths that match the last part of a pattern with * and ?; throws Error(data) where there are
/// none. Remote ones are listed.
std::vector<std::filesystem::path> matching_paths(const std::filesystem::path& pattern);

/// The error, which met a sample's bytes; where they are a local copy, its words say of what, and
/// how to have it fetched anew.
Error with_copy_named(const Error& error, const Dataset& dataset, std::int64_t index);

/// Runs `body`, which looks into the bytes of a sample; an Error(data) that leaves it is as above.
template <class Body>
decltype(auto) looking_into(const Dataset& dataset, std::int64_t index, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || dataset.fetchable() == nullptr) throw;
    throw with_copy_named(error, dataset, index);
  }
}

}  // namespace trainctl::data
