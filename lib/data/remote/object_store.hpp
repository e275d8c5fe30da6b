#pragma once

#include "data/remote/http_client.hpp"
#include "data/remote/url.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

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

}  // namespace trainctl::data
