#pragma once

#include "data/remote/http_client.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace trainctl::data {

class Transfers;

/// A remote path in its parts.
struct Url {
  std::string scheme;  // http, https, s3 or file
  std::string host;    // with its port; the bucket for s3; empty for file
  std::string path;    // begins with a slash; the key behind it for s3
  std::string text;    // as it was written: what errors and caches call it

  /// Of an s3 object.
  [[nodiscard]] std::string_view key() const { return std::string_view(path).substr(1); }
};

/// Throws Error(config), which does not repeat the URL, where it holds credentials or a query, or
/// has no host.
Url parse_url(const std::filesystem::path& path);

/// What stands in a request: everything but letters, digits, "-._~" and the characters of `kept`
/// becomes %XX.
std::string percent_encoded(std::string_view text, std::string_view kept);

/// A part of an object, and what the object is now.
struct Piece {
  std::string bytes;
  std::uint64_t total = 0;  // size of the object
  std::string etag;         // differs where the content does
};

struct ObjectInfo {
  std::string name;  // behind the prefix that was listed
  std::uint64_t size = 0;
  std::string etag;
  static auto parts(auto& self) { return std::tie(self.name, self.size, self.etag); }
};

/// An ETag without its quotes and its mark of weakness: servers differ in them between answers.
std::string plain_etag(std::string text);

/// Where objects come from. Called from several threads at once. Throws Error(data) where access is
/// refused, Error(resource) where the storage cannot be reached.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  /// The bytes of `range`, fewer only where the object ends; nothing where there is no such object.
  virtual std::optional<Piece> read(const Url& url, const ByteRange& range) = 0;
  /// The objects whose path begins with the URL's, sorted by name. Throws Error(config) where this
  /// kind of storage cannot tell.
  virtual std::vector<ObjectInfo> list(const Url& prefix) = 0;
};

/// Objects of any web server: it must answer range requests for files above 8 MiB, and has no list.
std::unique_ptr<ObjectStore> http_store(std::shared_ptr<Transfers> transfers);

struct S3Options {
  std::string endpoint;  // empty: Amazon's
  std::string region;
  std::optional<Signing> signing;
  std::size_t most_objects = 50'000'000;  // of one list
};
/// Buckets of Amazon S3 or a server that speaks its protocol, addressed by path.
std::unique_ptr<ObjectStore> s3_store(std::shared_ptr<Transfers> transfers, S3Options options);

/// A mounted folder, for mounts that are too slow to be read at each use.
std::unique_ptr<ObjectStore> file_store();

/// One page of an answer to ListObjectsV2.
struct S3Page {
  std::vector<ObjectInfo> objects;  // with whole keys
  std::string next;                 // continuation token; empty: the last page
};
/// Nothing where the text is no such answer.
std::optional<S3Page> parse_s3_page(std::string_view xml);

}  // namespace trainctl::data
