#pragma once

#include "data/formats/image_files.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {

/// The positions of the samples in one tar shard.
struct ShardIndex {
  FileStamp stamp;
  NameList keys;  // with the suffix of the image
  NameList labels;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;

  /// Returns the members that the cache file stores after the stamp.
  static auto parts(auto& self) {
    return std::tie(self.keys, self.labels, self.offsets, self.sizes);
  }
};

/// Expands "a-{08..10}.tar" to a-08.tar, a-09.tar and a-10.tar. Throws Error(config) when a range
/// is malformed or too long.
std::vector<std::filesystem::path> expand_braces(const std::string& pattern);

/// Returns the index of the shard, from the cache if the shard has not changed since. As in
/// WebDataset, adjacent members with the same key (the path up to the first dot of the file name)
/// form a sample. `options` gives the suffixes and the label key. Throws Error(data) when the
/// archive is damaged, or a sample lacks an image or label or has two.
ShardIndex index_shard(const std::filesystem::path& shard,
                       const spec::dataset::Webdataset& options);

}  // namespace trainctl::data
