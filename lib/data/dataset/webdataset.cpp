#include "spec/dataset/webdataset.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/shard_index.hpp"
#include "data/formats/image_files.hpp"
#include "data/remote/mount.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

using spec::dataset::Webdataset;

/// A range of numbers, or what a list of the folder matches.
std::vector<fs::path> shards_of(const fs::path& pattern) {
  if (pattern.filename().string().find_first_of("*?") != std::string::npos)
    return matching_paths(pattern);
  return expand_braces(pattern.string());
}

ImageFiles read_indices(const Webdataset& options) {
  const SampleRule rule{options.image, options.label, options.label_key};
  ImageFiles files;
  std::vector<std::string> labels;
  for (const fs::path& pattern : options.shards) {
    for (const fs::path& shard : shards_of(pattern)) {
      const ShardIndex index = index_shard(shard, rule);
      for (std::size_t i = 0; i < index.keys.size(); ++i) {
        files.names.add(index.keys[i]);
        labels.emplace_back(index.labels[i]);
      }
      files.file_of.insert(files.file_of.end(), index.keys.size(),
                           static_cast<std::uint32_t>(files.files.size()));
      files.offsets.insert(files.offsets.end(), index.offsets.begin(), index.offsets.end());
      files.sizes.insert(files.sizes.end(), index.sizes.begin(), index.sizes.end());
      files.files.add(identity_of(shard));
      files.stamps.push_back(index.stamp);
    }
  }
  files.labels = class_labels(labels, options.classes, [&](std::size_t i) {
    return printable(files.files[files.file_of[i]]) + ":" + printable(files.names[i]);
  });
  return files;
}

}  // namespace

void register_dataset_webdataset(Catalogue& catalogue) {
  catalogue.datasets["webdataset"] = [](const config::Stage& stage) {
    // The shards are the user's own paths; the names within them are never opened. An index is as
    // old as its shard, so there is nothing to forget.
    return image_file_dataset(DataRoot("/", DataRoot::Links::follow),
                              read_indices(stage.as<Webdataset>()), {});
  };
  catalogue.facts["webdataset"] = [](const config::Stage& stage) {
    return read_indices(stage.as<Webdataset>()).facts();
  };
}

}  // namespace trainctl::data
