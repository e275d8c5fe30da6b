#pragma once

#include "data/formats/file_reader.hpp"
#include "data/formats/image_files.hpp"
#include "spec/options/dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

namespace trainctl::data {

/// Where the samples of one tar shard lie within it.
struct ShardIndex {
  FileStamp stamp;
  NameList keys;  // with the suffix of the image
  NameList labels;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;

  /// What the cache keeps behind the stamp.
  static auto parts(auto& self) {
    return std::tie(self.keys, self.labels, self.offsets, self.sizes);
  }
};

/// "a-{08..10}.tar" stands for a-08.tar, a-09.tar and a-10.tar. Throws Error(config) for a bad or
/// too long range.
std::vector<std::filesystem::path> expand_braces(const std::string& pattern);

/// The index of the shard, from the cache where one is kept and the shard has not changed. Members
/// with one key, that is the name up to its last folder's first dot, stand next to each other and
/// make a sample, by the suffixes and the label's key in `options`. Throws Error(data) where the
/// archive is unsound, or a sample lacks its image or label or has two.
ShardIndex index_shard(const std::filesystem::path& shard,
                       const spec::dataset::Webdataset& options);

}  // namespace trainctl::data
