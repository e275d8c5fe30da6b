#pragma once

#include "data/remote/object_store.hpp"
#include "data/remote/transfers.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace trainctl::data {

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
