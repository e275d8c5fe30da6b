#pragma once

#include "data/core/dataset.hpp"
#include "data/formats/cache_file.hpp"
#include "data/remote/cached_object.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {

/// Maps remote paths to local files. Called from several threads.
class LocalTier {
 public:
  using Stores = std::map<std::string, std::shared_ptr<ObjectStore>>;  // by scheme

  LocalTier(fs::path folder, const spec::Budget& budget, Stores stores);

  /// Opens the local copy and creates it if necessary. Throws Error(data) when there is no such
  /// object.
  std::shared_ptr<CachedObject> open(const fs::path& path);
  /// Like open(), but returns null when there is no such object.
  std::shared_ptr<CachedObject> find(const fs::path& path);
  /// Returns whether a local copy has been created; needs no network.
  [[nodiscard]] bool has_local_copy(const fs::path& path) const;
  /// Returns the objects whose path starts with `prefix`, sorted by name. The list is requested
  /// once and cached.
  std::vector<ObjectInfo> list(const std::string& prefix);
  /// Makes the next list() request the list again.
  void remove_cached_list(const std::string& prefix) const;

  [[nodiscard]] TierFolder& folder() const { return *folder_; }

 private:
  [[nodiscard]] const std::shared_ptr<ObjectStore>& store_of(const Url& url) const;
  [[nodiscard]] CacheFile list_cache(const Url& url) const;

  std::shared_ptr<TierFolder> folder_;
  Stores stores_;
};

/// Sets the options for remote paths in this process, like a mount: code that opens paths need not
/// know whether they are remote. Accesses neither disk nor network until a remote path is opened.
void mount_remote(const spec::Dataset& options);
/// For tests: uses an existing tier.
void mount_remote(std::shared_ptr<LocalTier> tier);

/// Returns the tier for remote paths, with the options of mount_remote() or the defaults.
std::shared_ptr<LocalTier> remote_tier();

/// Returns the first existing path. Remote paths with a local copy are tried first, which avoids
/// requests for names that are known to be absent.
std::optional<std::filesystem::path> first_existing(
    const std::vector<std::filesystem::path>& paths);

/// Returns the paths that match a pattern with * and ? in its last component. Throws Error(data)
/// when there are none. Remote folders are listed.
std::vector<std::filesystem::path> matching_paths(const std::filesystem::path& pattern);

/// Returns an error about a sample's bytes with the name of the local copy, if there is one, and a
/// hint how to download the copy again.
Error add_local_copy(const Error& error, const Dataset& dataset, std::int64_t index);

/// Runs `body`, which reads the bytes of a sample, and applies add_local_copy() to its
/// Error(data).
template <class Body>
decltype(auto) report_local_copy(const Dataset& dataset, std::int64_t index, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || dataset.fetchable() == nullptr) throw;
    throw add_local_copy(error, dataset, index);
  }
}

}  // namespace trainctl::data
