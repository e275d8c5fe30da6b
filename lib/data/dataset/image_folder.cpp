#include "spec/dataset/image_folder.hpp"

#include "base/url.hpp"
#include "data/core/registry.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/formats/manifest.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::ImageFolder;

ManifestCache cache_of(const ImageFolder& options) {
  std::string identity = "image_folder";
  identity += options.allow_empty ? '1' : '0';
  identity += options.follow_links ? '1' : '0';
  return ManifestCache(identity + fs::absolute(options.root).lexically_normal().string());
}

DataRoot::Links links_of(const ImageFolder& options) {
  return options.follow_links ? DataRoot::Links::follow : DataRoot::Links::refuse;
}

FolderScan scan(const ImageFolder& options, Stamps stamps) {
  return scan_class_folders(
      options.root, {links_of(options),
                     options.allow_empty ? EmptyClasses::allow : EmptyClasses::refuse, stamps});
}

Facts facts_of(const ImageFolder& options) {
  if (is_remote(options.root)) return scan_remote_classes(options.root).facts();
  if (std::optional<Facts> known = cache_of(options).facts()) return *std::move(known);
  return scan(options, Stamps::leave).files.facts();
}

std::shared_ptr<const Dataset> load(const ImageFolder& options) {
  if (is_remote(options.root)) {
    return image_file_dataset(DataRoot(options.root), scan_remote_classes(options.root),
                              [root = options.root] { forget_remote_classes(root); });
  }
  const ManifestCache cache = cache_of(options);
  std::optional<ImageFiles> files = cache.load();
  if (!files || !is_as_listed(options.root, *files)) {
    FolderScan found = scan(options, Stamps::take);
    cache.save(found.folders, found.files);
    files = std::move(found.files);
  }
  return image_file_dataset(DataRoot(options.root, links_of(options)), *std::move(files),
                            [cache] { cache.forget(); });
}

}  // namespace

void register_dataset_image_folder(Catalogue& catalogue) {
  catalogue.datasets["image_folder"] = [](const config::Stage& stage) {
    return load(stage.as<ImageFolder>());
  };
  catalogue.facts["image_folder"] = [](const config::Stage& stage) {
    return facts_of(stage.as<ImageFolder>());
  };
}

}  // namespace trainctl::data
