#include "data/formats/remote_scan.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/remote/mount.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

namespace trainctl::data {
namespace {

struct Found {
  std::string class_name;
  std::string folder;  // with the class
  ObjectInfo object;

  [[nodiscard]] auto order() const { return std::tie(class_name, folder, object.name); }
};

/// Those that lie in a class folder and are images.
std::vector<Found> images_of(std::vector<ObjectInfo> objects) {
  std::vector<Found> images;
  for (ObjectInfo& object : objects) {
    const std::size_t slash = object.name.find('/');
    if (slash == std::string::npos || slash == 0 || !has_image_suffix(object.name)) continue;
    images.push_back({object.name.substr(0, slash), object.name.substr(0, object.name.rfind('/')),
                      std::move(object)});
  }
  std::sort(images.begin(), images.end(),
            [](const Found& a, const Found& b) { return a.order() < b.order(); });
  return images;
}

std::string prefix_of(const std::filesystem::path& root) {
  std::string prefix = root.string();
  if (!prefix.ends_with('/')) prefix += '/';
  return prefix;
}

}  // namespace

ImageFiles scan_remote_classes(const std::filesystem::path& root) {
  const std::string prefix = prefix_of(root);
  const std::vector<Found> images = images_of(remote_tier()->list(prefix));
  ENSURE(data, !images.empty(), "{} holds no images in class folders; expected {}<class>/<image>",
         printable(root.string()), printable(prefix));
  ImageFiles files;
  std::vector<std::int64_t> labels;
  for (const Found& image : images) {
    std::vector<std::string>& names = files.labels.class_names;
    if (names.empty() || names.back() != image.class_name) names.push_back(image.class_name);
    labels.push_back(std::ssize(names) - 1);
    files.files.add(image.object.name);
    files.stamps.push_back({image.object.size, time_of_etag(image.object.etag)});
  }
  files.labels.classes = std::ssize(files.labels.class_names);
  files.labels.rows.resize(labels.size() * sizeof(std::int64_t));
  std::memcpy(files.labels.rows.data(), labels.data(), files.labels.rows.size());
  return files;
}

void forget_remote_classes(const std::filesystem::path& root) {
  remote_tier()->forget_list(prefix_of(root));
}

}  // namespace trainctl::data
