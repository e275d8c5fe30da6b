#pragma once

#include "data/remote/http_client.hpp"

#include <filesystem>
#include <string_view>
#include <tuple>

namespace trainctl::data {

class Transfers;

/// The parts of a remote path.
struct Url {
  std::string scheme;  // http, https, s3 or file
  std::string host;    // with port; the bucket for s3; empty for file
  std::string path;    // starts with a slash; the key follows it for s3
  std::string text;    // as written, for errors and cache names

  /// Returns the key of an s3 object.
  [[nodiscard]] std::string_view key() const { return std::string_view(path).substr(1); }
};

/// Throws Error(config), without repeating the URL, when the URL contains credentials or a query,
/// or has no host.
Url parse_url(const std::filesystem::path& path);

/// Replaces all characters by %XX except letters, digits, "-._~" and the characters of `kept`.
std::string percent_encoded(std::string_view text, std::string_view kept);

/// A part of an object, with the current size and etag of the object.
struct ObjectPart {
  std::string bytes;
  std::uint64_t total = 0;  // size of the object
  std::string etag;         // changes with the content
};

/// One object of a listing.
struct ObjectInfo {
  std::string name;  // relative to the listed prefix
  std::uint64_t size = 0;
  std::string etag;
  static auto parts(auto& self) { return std::tie(self.name, self.size, self.etag); }
};

/// Returns an ETag without quotes and the weakness mark, which may vary between responses of a
/// server.
std::string plain_etag(std::string text);

/// A source of objects. Called from several threads at once. Throws Error(data) when access is
/// denied, Error(resource) when the storage cannot be reached.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  /// Returns the bytes of `range`, fewer only at the end of the object; nothing when there is no
  /// such object.
  virtual std::optional<ObjectPart> read(const Url& url, const ByteRange& range) = 0;
  /// Returns the objects whose path starts with the URL's path, sorted by name. Throws
  /// Error(config) when this kind of storage cannot list.
  virtual std::vector<ObjectInfo> list(const Url& prefix) = 0;
};

/// Returns a store for any web server. The server must support range requests for files above 8
/// MiB. Listing is not supported.
std::unique_ptr<ObjectStore> http_store(std::shared_ptr<Transfers> transfers);

/// The options of an S3 store; without `signing`, requests are anonymous.
struct S3Options {
  std::string endpoint;  // empty: Amazon
  std::string region;
  std::optional<Signing> signing;
  std::size_t most_objects = 50'000'000;  // limit of one listing
};
/// Returns a store for Amazon S3 or a compatible server, with path-style addresses.
std::unique_ptr<ObjectStore> s3_store(std::shared_ptr<Transfers> transfers, S3Options options);

/// Returns a store for a mounted folder that is too slow to be read on every use.
std::unique_ptr<ObjectStore> file_store();

/// One page of a ListObjectsV2 response.
struct S3Page {
  std::vector<ObjectInfo> objects;  // with full keys
  std::string next;                 // continuation token; empty: the last page
};
/// Returns nothing when the text is not a ListObjectsV2 response.
std::optional<S3Page> parse_s3_page(std::string_view xml);

}  // namespace trainctl::data
