#include "data/formats/folder_scan.hpp"

#include "data/core/run_control.hpp"
#include "data/remote/local_tier.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace trainctl::data {
namespace {

struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> images;
  std::uint64_t count = 0;
  std::pair<dev_t, ino_t> identity;
};

class Scanner {
 public:
  Scanner(fs::path root, const ScanOptions& options) : root_(std::move(root)), options_(options) {}

  FolderScan scan() {
    ENSURE(data, is_folder(root_),
           "the folder {} does not exist\nhint: correct 'root' of the data set", shown(root_));
    Entries top = look_into("");
    ENSURE(data, !top.folders.empty(), "{} must contain class folders, as in {}/<class>/<{}>",
           shown(root_), shown(root_), options_.of.one);
    for (const std::string& name : top.folders) add_class(name);
    ENSURE(data, scan_.files.files.size() > 0, "{} contains no {} in its {} class folders",
           shown(root_), options_.of.many, top.folders.size());
    scan_.files.labels = numbered_labels(labels_, std::move(top.folders));
    return std::move(scan_);
  }

  ImageFiles scan_all() {
    top_images_ = true;
    Entries top = look_into("");
    open_.push_back(top.identity);
    for (const std::string& image : top.images) add_image(image);
    for (const std::string& name : top.folders) add_files(name);
    return std::move(scan_.files);
  }

 private:
  void add_files(const std::string& name) {
    std::vector<std::pair<std::string, std::vector<std::string>>> folders;
    walk(name, folders);
    // This is the order of sorted(os.walk(...)): by the full path of the folder.
    std::sort(folders.begin(), folders.end());
    for (const auto& [folder, images] : folders) {
      for (const std::string& image : images) add_image(folder + "/" + image);
    }
  }

  void add_class(const std::string& name) {
    const std::size_t before = scan_.files.files.size();
    add_files(name);
    ENSURE(data, options_.empty == EmptyClasses::allow || scan_.files.files.size() > before,
           "the class folder {} contains no {} ({})\nhint: remove it{}", shown(root_ / name),
           options_.of.many, options_.of.suffixes,
           options_.of.matches == has_image_suffix
               ? ", or set allow_empty: true in the options of the data set"
               : "");
    labels_.resize(scan_.files.files.size(), classes_++);
  }

  void walk(const std::string& folder,
            std::vector<std::pair<std::string, std::vector<std::string>>>& found) {
    Entries entries = look_into(folder);
    ENSURE(data, std::find(open_.begin(), open_.end(), entries.identity) == open_.end(),
           "{} is a link to a folder that contains it\nhint: remove the link",
           shown(root_ / folder));
    found.emplace_back(folder, std::move(entries.images));
    open_.push_back(entries.identity);
    for (const std::string& name : entries.folders) walk(folder + "/" + name, found);
    open_.pop_back();
  }

  /// Returns the entries of a folder, sorted by name.
  Entries look_into(const std::string& folder) {
    const fs::path path = folder.empty() ? root_ : root_ / folder;
    // The time is read before the entries, so that a file added later makes the manifest stale.
    struct stat info {};
    ENSURE(data, ::stat(path.c_str(), &info) == 0, "cannot read {}: {}", shown(path),
           std::strerror(errno));
    Entries entries;
    entries.identity = {info.st_dev, info.st_ino};
    std::error_code failure;
    fs::directory_iterator entry(path, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      ++entries.count;
      note_progress();
      sort_in(*entry, !folder.empty() || top_images_, entries);
    }
    ENSURE(data, !failure, "cannot read the folder {}: {}", shown(path), failure.message());
    scan_.folders.push_back({fs::absolute(path).lexically_normal().string(),
                             info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
                             entries.count});
    std::ranges::sort(entries.folders);
    std::ranges::sort(entries.images);
    return entries;
  }

  void sort_in(const fs::directory_entry& entry, bool takes_images, Entries& entries) const {
    std::error_code failure;
    std::string name = entry.path().filename().string();
    const bool image = takes_images && options_.of.matches(name);
    const bool folder = entry.is_directory(failure);
    if (entry.is_symlink(failure) && (folder || image)) {
      ENSURE(
          data, options_.links == DataRoot::Links::follow,
          "{} is a symbolic link\nhint: to follow it, set follow_links: true in the options of the "
          "data set",
          shown(entry.path()));
    }
    if (folder) {
      entries.folders.push_back(std::move(name));
    } else if (image) {
      ENSURE(data, entry.is_regular_file(failure), "{} is not a regular file{}\nhint: remove it",
             shown(entry.path()), entry.is_symlink(failure) ? ", or is a broken link" : "");
      entries.images.push_back(std::move(name));
    }
  }

  void add_image(const std::string& name) {
    scan_.files.files.add(name);
    if (options_.stamps == Stamps::leave) return;
    struct stat info {};
    const fs::path path = root_ / name;
    ENSURE(data, ::stat(path.c_str(), &info) == 0, "cannot read {}: {}", shown(path),
           std::strerror(errno));
    note_progress();
    scan_.files.stamps.push_back(stamp_of(info));
  }

  fs::path root_;
  ScanOptions options_;
  FolderScan scan_;
  std::vector<std::int64_t> labels_;
  std::vector<std::pair<dev_t, ino_t>> open_;  // the folders on the current path of walk()
  std::int64_t classes_ = 0;
  bool top_images_ = false;  // include images directly in the root
};

struct FoundImage {
  std::string class_name;
  std::string folder;  // includes the class
  ObjectInfo object;
};

/// Returns the images in class folders, sorted by class, folder and name.
std::vector<FoundImage> images_of(std::vector<ObjectInfo> objects) {
  std::vector<FoundImage> images;
  for (ObjectInfo& object : objects) {
    const std::size_t slash = object.name.find('/');
    if (slash == std::string::npos || slash == 0 || !has_image_suffix(object.name)) continue;
    images.push_back({object.name.substr(0, slash), object.name.substr(0, object.name.rfind('/')),
                      std::move(object)});
  }
  std::ranges::sort(images, {}, [](const FoundImage& image) {
    return std::tie(image.class_name, image.folder, image.object.name);
  });
  return images;
}

std::string prefix_of(const fs::path& root) {
  return root.string() + (root.string().ends_with('/') ? "" : "/");
}

}  // namespace

FolderScan scan_class_folders(const fs::path& root, const ScanOptions& options) {
  return Scanner(root, options).scan();
}

ImageFiles scan_pictures(const fs::path& root) {
  return Scanner(root, {.links = DataRoot::Links::follow}).scan_all();
}

ImageFiles scan_remote_classes(const fs::path& root) {
  const std::string prefix = prefix_of(root);
  const std::vector<FoundImage> images = images_of(remote_tier()->list(prefix));
  ENSURE(data, !images.empty(), "{} must contain images in class folders, as in {}<class>/<image>",
         shown(root), printable(prefix));
  ImageFiles files;
  std::vector<std::int64_t> labels;
  std::vector<std::string> names;
  for (const FoundImage& image : images) {
    if (names.empty() || names.back() != image.class_name) names.push_back(image.class_name);
    labels.push_back(std::ssize(names) - 1);
    files.files.add(image.object.name);
    files.stamps.push_back({image.object.size, time_of_etag(image.object.etag)});
  }
  files.labels = numbered_labels(labels, std::move(names));
  return files;
}

void forget_remote_classes(const fs::path& root) {
  remote_tier()->remove_cached_list(prefix_of(root));
}

}  // namespace trainctl::data
